/* bare_peer ADDRESS IMAGE: the other end of bare_mirror.c. Prints its port; a thread a connection
 * writes what comes, waits until it is stable, and says so. Until it is ended. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bare_mirror.h"

enum { MESSAGE_MAX = 4 << 20 };

static int image;

static void* serve(void* given) {
  int connection = (int)(intptr_t)given;
  struct bare_head* head = malloc(MESSAGE_MAX);
  if (!head) abort();
  for (;;) {
    /* The writer waits for its answer: no more than one message is under way. */
    ssize_t here = recv(connection, head, MESSAGE_MAX, 0);
    if (here < (ssize_t)sizeof *head) break;
    size_t size = sizeof *head + head->size;
    if (size > MESSAGE_MAX) abort();
    if ((size_t)here < size &&
        recv(connection, (char*)head + here, size - (size_t)here, MSG_WAITALL) <= 0)
      break;
    if (pwrite(image, head + 1, head->size, (off_t)head->at) != (ssize_t)head->size ||
        fdatasync(image) != 0) {
      perror("bare_peer: write");
      abort();
    }
    if (send(connection, &head->at, sizeof head->at, MSG_NOSIGNAL) < 0) break;
  }
  close(connection);
  free(head);
  return NULL;
}

int main(int count, char** words) {
  if (count != 3) {
    fprintf(stderr, "usage: bare_peer ADDRESS IMAGE\n");
    return 2;
  }
  struct sockaddr_in here = {.sin_family = AF_INET};
  socklen_t length = sizeof here;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  image = open(words[2], O_RDWR | O_CLOEXEC);
  if (image < 0 || inet_pton(AF_INET, words[1], &here.sin_addr) != 1 ||
      bind(listener, (struct sockaddr*)&here, length) != 0 || listen(listener, 512) != 0 ||
      getsockname(listener, (struct sockaddr*)&here, &length) != 0) {
    perror("bare_peer");
    return 1;
  }
  printf("%d\n", ntohs(here.sin_port));
  fflush(stdout);
  for (;;) {
    int connection = accept(listener, NULL, NULL);
    pthread_t thread;
    if (connection < 0 ||
        setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        pthread_create(&thread, NULL, serve, (void*)(intptr_t)connection) != 0) {
      perror("bare_peer: accept");
      return 1;
    }
    pthread_detach(thread);
  }
}
