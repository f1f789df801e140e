/* LD_PRELOAD: a synchronous copy as simple as can be, to measure a mirror against. What a thread
 * writes goes to a program on the other host, too (bare_peer.c, at $TWINBLOCK_BARE_PEER,
 * ADDRESS:PORT), over a connection of that thread's own; fdatasync returns when it is stable on both.
 *
 * It keeps none of a mirror's promises: no order between writes, no checks, no record of what is
 * missing, no second link; what goes wrong ends the process. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bare_mirror.h"

static __thread int connection = -1;
static __thread int unanswered;
static pthread_key_t open_connection; /* of a thread: its descriptor + 1 */

static void hang_up(void* given) { close((int)(intptr_t)given - 1); }

__attribute__((constructor)) static void begin(void) { pthread_key_create(&open_connection, hang_up); }

static void give_up(const char* what) {
  perror(what);
  abort();
}

static void connect_to_peer(void) {
  const char* wanted = getenv("TWINBLOCK_BARE_PEER");
  char address[64];
  const char* colon = wanted ? strchr(wanted, ':') : NULL;
  if (!colon || colon - wanted >= (ptrdiff_t)sizeof address) {
    fprintf(stderr, "bare_mirror: TWINBLOCK_BARE_PEER is not ADDRESS:PORT\n");
    abort();
  }
  memcpy(address, wanted, (size_t)(colon - wanted));
  address[colon - wanted] = 0;
  struct sockaddr_in peer = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(colon + 1))};
  int on = 1;
  connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection < 0 || inet_pton(AF_INET, address, &peer.sin_addr) != 1 ||
      connect(connection, (struct sockaddr*)&peer, sizeof peer) != 0 ||
      setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
    give_up("bare_mirror: connect");
  pthread_setspecific(open_connection, (void*)(intptr_t)(connection + 1));
}

static void send_to_peer(const void* from, size_t size, off_t at) {
  if (connection < 0) connect_to_peer();
  struct bare_head head = {.at = (uint64_t)at, .size = size};
  struct iovec parts[2] = {{&head, sizeof head}, {(void*)from, size}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  /* A blocking socket takes all of it. */
  if (sendmsg(connection, &message, MSG_NOSIGNAL) != (ssize_t)(sizeof head + size))
    give_up("bare_mirror: send");
  ++unanswered;
}

#define WRITE(NAME)                                                                        \
  ssize_t NAME(int fd, const void* from, size_t size, off_t at) {                          \
    static ssize_t (*real)(int, const void*, size_t, off_t);                               \
    if (!real) real = (ssize_t (*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, #NAME); \
    send_to_peer(from, size, at);                                                          \
    return real(fd, from, size, at);                                                       \
  }

WRITE(pwrite)
WRITE(pwrite64)

int fdatasync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  int result = real(fd);
  for (; unanswered > 0; --unanswered) {
    uint64_t answer;
    if (recv(connection, &answer, sizeof answer, MSG_WAITALL) != (ssize_t)sizeof answer)
      give_up("bare_mirror: no answer");
  }
  return result;
}
