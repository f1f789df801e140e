/* LD_PRELOAD: makes files behave as if they lay on disks that carry so much and take so long for a
 * request, as cloud disks do. $TWINBLOCK_HELD_DISKS names the disks:
 * BYTES_PER_S,DELAY_US,PATH[,PATH...] each, separated by ';'.
 *
 * It is a disk behind a page cache: writing to the file is quick, and fdatasync returns when the
 * disk has taken all that was written before, one byte after the other at its rate, and the delay
 * has passed for the last of it. Requests wait out their delays side by side. There is no volatile
 * cache in the disk, so a flush with nothing to write costs nothing, and a direct write (O_DIRECT), which
 * returns when the disk has taken it, leaves nothing to flush. Direct reads wait like direct writes, behind the
 * same rate; others may come from the page cache, and do not. System calls that do not go
 * through libc (io_uring) are not seen: run nodes with TWINBLOCK_DISK=threads, files on a tmpfs.
 *
 * While the file $TWINBLOCK_HELD_DISKS_BROKEN exists, the disks fail (EIO). Into the file
 * $TWINBLOCK_HELD_DISKS_COUNT, of 16 bytes, goes what was read directly from all of them: how often, and how many
 * bytes, added to what it held. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DISKS_MAX 4
#define PATHS_MAX 4

struct disk {
  double bytes_per_s;
  int64_t delay_ns;
  char* paths[PATHS_MAX];
  int paths_count;
  pthread_mutex_t lock;
  int64_t unwritten_bytes; /* in the page cache only */
  int64_t busy_until_ns;   /* when it has taken all that it was given */
  int64_t done_ns;         /* when that is stable */
};

static struct disk disks[DISKS_MAX];
static int disks_count;
static uint64_t* counts; /* direct reads and their bytes; NULL: nobody asks */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void give_up(const char* why) {
  fprintf(stderr, "held_disk: TWINBLOCK_HELD_DISKS: %s\n", why);
  abort();
}

static void map_counts(void) {
  const char* path = getenv("TWINBLOCK_HELD_DISKS_COUNT");
  if (!path) return;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  void* place = mmap(NULL, 2 * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (fd < 0 || place == MAP_FAILED) give_up("TWINBLOCK_HELD_DISKS_COUNT can't be mapped");
  close(fd);
  counts = place;
}

static void configure(void) {
  const char* wanted = getenv("TWINBLOCK_HELD_DISKS");
  if (!wanted) return;
  char *text = strdup(wanted), *rest = NULL;
  for (char* one = strtok_r(text, ";", &rest); one; one = strtok_r(NULL, ";", &rest)) {
    if (disks_count == DISKS_MAX) give_up("too many disks");
    struct disk* disk = &disks[disks_count++];
    char* words = NULL;
    char *rate = strtok_r(one, ",", &words), *delay = strtok_r(NULL, ",", &words);
    if (!rate || !delay || atof(rate) <= 0) give_up("not BYTES_PER_S,DELAY_US,PATH");
    disk->bytes_per_s = atof(rate);
    disk->delay_ns = (int64_t)(atof(delay) * 1000);
    pthread_mutex_init(&disk->lock, NULL);
    for (char* path; (path = strtok_r(NULL, ",", &words));) {
      if (disk->paths_count == PATHS_MAX) give_up("too many paths");
      disk->paths[disk->paths_count++] = path;
    }
  }
  map_counts();
}

static struct disk* disk_of(int fd) {
  pthread_once(&once, configure);
  struct stat file, named;
  if (disks_count == 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode)) return NULL;
  for (int i = 0; i < disks_count; i++)
    for (int j = 0; j < disks[i].paths_count; j++)
      if (stat(disks[i].paths[j], &named) == 0 && named.st_dev == file.st_dev &&
          named.st_ino == file.st_ino)
        return &disks[i];
  return NULL;
}

static int64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void sleep_until(int64_t until_ns) {
  if (until_ns <= now_ns()) return;
  struct timespec time = {until_ns / 1000000000, until_ns % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR) {
  }
}

/* When the disk, which is locked, has made so many more bytes stable. */
static int64_t take(struct disk* disk, int64_t bytes) {
  int64_t now = now_ns();
  if (disk->busy_until_ns < now) disk->busy_until_ns = now;
  disk->busy_until_ns += (int64_t)((double)bytes * 1e9 / disk->bytes_per_s);
  return disk->busy_until_ns + disk->delay_ns;
}

/* Whether that call is to fail; errno says so then. */
static int broken(int fd) {
  const char* trigger = getenv("TWINBLOCK_HELD_DISKS_BROKEN");
  int saved = errno;
  int fails = trigger && access(trigger, F_OK) == 0 && disk_of(fd);
  errno = fails ? EIO : saved;
  return fails;
}

static void have_read(int fd, ssize_t bytes) {
  struct disk* disk = bytes > 0 ? disk_of(fd) : NULL;
  if (!disk || (fcntl(fd, F_GETFL) & O_DIRECT) == 0) return;
  int saved = errno;
  pthread_mutex_lock(&disk->lock);
  int64_t until_ns = take(disk, bytes);
  pthread_mutex_unlock(&disk->lock);
  if (counts) {
    __atomic_fetch_add(&counts[0], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counts[1], (uint64_t)bytes, __ATOMIC_RELAXED);
  }
  sleep_until(until_ns);
  errno = saved;
}

static void wrote(int fd, ssize_t bytes) {
  struct disk* disk = bytes > 0 ? disk_of(fd) : NULL;
  if (!disk) return;
  int saved = errno;
  int64_t until_ns = 0;
  int direct = (fcntl(fd, F_GETFL) & O_DIRECT) != 0;
  pthread_mutex_lock(&disk->lock);
  if (direct)
    until_ns = take(disk, bytes);
  else
    disk->unwritten_bytes += bytes;
  pthread_mutex_unlock(&disk->lock);
  sleep_until(until_ns);
  errno = saved;
}

static void await(int fd) {
  struct disk* disk = disk_of(fd);
  if (!disk) return;
  pthread_mutex_lock(&disk->lock);
  if (disk->unwritten_bytes > 0) disk->done_ns = take(disk, disk->unwritten_bytes);
  disk->unwritten_bytes = 0;
  int64_t until_ns = disk->done_ns; /* of what others have handed over, too */
  pthread_mutex_unlock(&disk->lock);
  sleep_until(until_ns);
}

#define TRANSFER(NAME, PARAMETERS, ARGUMENTS, DONE)                   \
  ssize_t NAME PARAMETERS {                                           \
    static ssize_t(*real) PARAMETERS;                                 \
    if (!real) real = (ssize_t(*) PARAMETERS)dlsym(RTLD_NEXT, #NAME); \
    if (broken(fd)) return -1;                                        \
    ssize_t bytes = real ARGUMENTS;                                   \
    DONE(fd, bytes);                                                  \
    return bytes;                                                     \
  }

#define WRITE(NAME, PARAMETERS, ARGUMENTS) TRANSFER(NAME, PARAMETERS, ARGUMENTS, wrote)
#define READ(NAME, PARAMETERS, ARGUMENTS) TRANSFER(NAME, PARAMETERS, ARGUMENTS, have_read)

#define SYNC(NAME)                                           \
  int NAME(int fd) {                                         \
    static int (*real)(int);                                 \
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, #NAME); \
    if (broken(fd)) return -1;                               \
    int result = real(fd);                                   \
    if (result == 0) await(fd);                              \
    return result;                                           \
  }

WRITE(pwrite, (int fd, const void* from, size_t size, off_t at), (fd, from, size, at))
WRITE(pwrite64, (int fd, const void* from, size_t size, off_t at), (fd, from, size, at))
WRITE(pwritev, (int fd, const struct iovec* from, int count, off_t at), (fd, from, count, at))
WRITE(pwritev64, (int fd, const struct iovec* from, int count, off_t at), (fd, from, count, at))
WRITE(pwritev2, (int fd, const struct iovec* from, int count, off_t at, int flags),
      (fd, from, count, at, flags))
WRITE(pwritev64v2, (int fd, const struct iovec* from, int count, off_t at, int flags),
      (fd, from, count, at, flags))
READ(pread, (int fd, void* into, size_t size, off_t at), (fd, into, size, at))
READ(pread64, (int fd, void* into, size_t size, off_t at), (fd, into, size, at))
SYNC(fdatasync)
SYNC(fsync)
