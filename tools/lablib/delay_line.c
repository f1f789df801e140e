/* A long link: a TAP device NAME in each of two network namespaces, and what goes into one comes out of the other
 * after a fixed time, in order, both ways. (netem does that in the kernel; not every kernel has it.)
 *
 * usage: delay_line NAME DELAY_US QUEUE_BYTES PID PID
 *
 * The namespaces are those of the two processes. It says "ready" when the devices are there, and ends when one of the
 * processes has ended; the devices go with it. What does not fit into the queue, which is of each direction, is dropped
 * as by a router, and told.
 *
 * A thread a direction: it stamps what it reads, and writes what is due. Frames cross as they are, with the header by
 * which the kernel says what it has left to the device (checksums, cutting into segments): so that 64 KiB of a stream
 * are one frame here, as they are on a veth pair. The rate is not made here: tc shapes what goes into the device. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ethtool.h>
#include <linux/if_tun.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND_NS INT64_C(1000000000)
#define FRAME_BYTES_MAX (UINT32_C(68) << 10) /* 64 KiB that are not cut yet, and headers */
#define BATCH 64                             /* frames read before those that are due have their turn */
#define FRAMES_MAX (UINT32_C(1) << 17)        /* in a queue: 1.5 s of 1 Gbit/s in single packets */
#define DEVICE_MBIT_PER_S 10000              /* what it says of itself, as a veth does */

struct frame {
  int64_t due_ns;
  uint32_t at, bytes; /* in the queue */
};

struct direction {
  int from, to;
  const char* name;
  int64_t delay_ns;
  unsigned char* queue;
  uint32_t queue_bytes;
  uint32_t next;                   /* where in it the next frame goes */
  struct frame frames[FRAMES_MAX]; /* a ring */
  uint32_t oldest, count;
  uint64_t dropped, told;
  int64_t told_ns;
};

static struct direction lines[2];

static void give_up(const char* format, ...) {
  va_list words;
  va_start(words, format);
  fputs("delay_line: ", stderr);
  vfprintf(stderr, format, words);
  va_end(words);
  fputc('\n', stderr);
  exit(1);
}

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * SECOND_NS + time.tv_nsec;
}

/* --- the devices */

static void enter(const char* pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%s/ns/net", pid);
  int ns = open(path, O_RDONLY | O_CLOEXEC);
  if (ns < 0 || setns(ns, CLONE_NEWNET) != 0) give_up("%s: %s", path, strerror(errno));
  close(ns);
}

/* The rate that it says is its own. */
static void describe(const char* name) {
  int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  struct ifreq request = {0};
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  struct ethtool_cmd speed = {.cmd = ETHTOOL_SSET, .duplex = DUPLEX_FULL};
  ethtool_cmd_speed_set(&speed, DEVICE_MBIT_PER_S);
  request.ifr_data = (char*)&speed;
  ioctl(sock, SIOCETHTOOL, &request); /* old kernels: it says 10 Mbit/s */
  close(sock);
}

static int device(const char* name) {
  int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) give_up("/dev/net/tun: %s", strerror(errno));
  struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR};
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  if (ioctl(fd, TUNSETIFF, &request) != 0) give_up("no TAP device %s: %s", name, strerror(errno));
  unsigned long leave = TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6;
  if (ioctl(fd, TUNSETOFFLOAD, leave) != 0) give_up("%s: no offloads: %s", name, strerror(errno));
  describe(name);
  return fd;
}

/* --- one direction */

/* Where in the queue the next frame fits, however long it is: none goes around the end. NULL: nowhere. */
static unsigned char* room(struct direction* line) {
  if (line->count == 0) line->next = 0;
  uint32_t oldest = line->frames[line->oldest].at, left = line->queue_bytes - line->next;
  if (line->count == FRAMES_MAX) return NULL;
  if (line->count > 0 && line->next <= oldest) left = oldest - line->next;
  else if (line->count > 0 && left < FRAME_BYTES_MAX) {
    line->next = 0;
    left = oldest;
  }
  return left >= FRAME_BYTES_MAX ? line->queue + line->next : NULL;
}

/* Whether there was a frame. */
static int take(struct direction* line) {
  static unsigned char nowhere[FRAME_BYTES_MAX];
  unsigned char* place = room(line);
  ssize_t bytes = read(line->from, place ? place : nowhere, FRAME_BYTES_MAX);
  if (bytes <= 0) return 0; /* the interface may be down */
  if (!place) {
    ++line->dropped;
    return 1;
  }
  struct frame* frame = &line->frames[(line->oldest + line->count++) % FRAMES_MAX];
  *frame = (struct frame){now_ns() + line->delay_ns, line->next, (uint32_t)bytes};
  line->next += (uint32_t)bytes;
  return 1;
}

/* Writes what is due. When the next one will be; -1: there is none. */
static int64_t give(struct direction* line) {
  while (line->count > 0) {
    struct frame* frame = &line->frames[line->oldest];
    if (frame->due_ns > now_ns()) return frame->due_ns;
    /* It fails when the interface is down: as into a cable that nobody holds. */
    if (write(line->to, line->queue + frame->at, frame->bytes) < 0 && errno != EIO) ++line->dropped;
    line->oldest = (line->oldest + 1) % FRAMES_MAX;
    --line->count;
  }
  return -1;
}

static void tell_dropped(struct direction* line) {
  int64_t now = now_ns();
  if (line->dropped == line->told || now - line->told_ns < SECOND_NS) return;
  line->told = line->dropped;
  line->told_ns = now;
  printf("%s: %" PRIu64 " frames dropped; the queue has %" PRIu32 " bytes\n", line->name, line->dropped,
         line->queue_bytes);
  fflush(stdout);
}

static void* carry(void* argument) {
  struct direction* line = argument;
  prctl(PR_SET_TIMERSLACK, 1);
  for (;;) {
    int read_all = 0;
    for (int i = 0; i < BATCH && !(read_all = !take(line)); i++) {
    }
    int64_t due_ns = give(line);
    tell_dropped(line);
    if (!read_all) continue;
    int64_t left_ns = due_ns < 0 ? SECOND_NS : due_ns - now_ns();
    if (left_ns <= 0) continue;
    struct timespec wait = {left_ns / SECOND_NS, left_ns % SECOND_NS};
    struct pollfd in = {line->from, POLLIN, 0};
    ppoll(&in, 1, &wait, NULL);
    /* A device that is down is always ready, with nothing to read. */
    if (in.revents & POLLERR) usleep(1000);
  }
  return NULL;
}

/* --- */

static int64_t number(const char* text, int64_t most) {
  char* end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end || value < 0 || value > most)
    give_up("'%s' is not a number up to %" PRId64, text, most);
  return value;
}

static void start(struct direction* line, int from, int to, const char* name, int64_t delay_ns, uint32_t queue_bytes) {
  *line = (struct direction){.from = from, .to = to, .name = name, .delay_ns = delay_ns, .queue_bytes = queue_bytes};
  line->queue = malloc(queue_bytes);
  if (!line->queue) give_up("no memory for a queue of %" PRIu32 " bytes", queue_bytes);
}

/* Before all that this machine is busy with, where that is allowed: a link does not wait for a processor. */
static void hurry(void) {
  struct sched_param first = {.sched_priority = 1};
  if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) setpriority(PRIO_PROCESS, 0, -20);
}

int main(int argc, char** argv) {
  if (argc != 6) give_up("usage: delay_line NAME DELAY_US QUEUE_BYTES PID PID");
  int64_t delay_ns = 1000 * number(argv[2], 10 * 1000 * 1000);
  uint32_t queue_bytes = (uint32_t)number(argv[3], INT64_C(1) << 31) + 2 * FRAME_BYTES_MAX;
  struct pollfd ends[2];
  int devices[2];
  for (int i = 0; i < 2; i++) {
    pid_t pid = (pid_t)number(argv[4 + i], INT32_MAX);
    ends[i] = (struct pollfd){(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0};
    if (ends[i].fd < 0) give_up("process %d: %s", pid, strerror(errno));
  }
  for (int i = 0; i < 2; i++) {
    enter(argv[4 + i]);
    devices[i] = device(argv[1]);
  }
  start(&lines[0], devices[0], devices[1], "there", delay_ns, queue_bytes);
  start(&lines[1], devices[1], devices[0], "back", delay_ns, queue_bytes);
  hurry();
  for (int i = 0; i < 2; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, carry, &lines[i]) != 0) give_up("no thread");
  }
  puts("ready");
  fflush(stdout);
  while (poll(ends, 2, -1) < 0 && errno == EINTR) {
  }
  return 0;
}
