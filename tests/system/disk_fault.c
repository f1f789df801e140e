/* LD_PRELOAD: makes one file's disk fail. While the file $DISK_FAULT_TRIGGER exists, calls on
 * $DISK_FAULT_PATH return the errno value that is written in it; behind it may stand what fails:
 * "reads", "writes" (with flushes), "transfers" (writes without flushes) or "flushes". Where it
 * says "delay N", writes take N us longer, and make the file $DISK_FAULT_TRIGGER.slow before; where it says
 * "halfway", a read takes its first half, makes the file $DISK_FAULT_TRIGGER.halfway, and takes the rest when
 * $DISK_FAULT_TRIGGER is gone; where it says "hang", a write or a flush makes $DISK_FAULT_TRIGGER.slow, waits until it says
 * something else, or is gone, and goes by that; where it says "seek", an lseek does so when it has its answer, and returns then.
 * A write that makes itself stable (pwritev2) fails with the flushes.
 * Where $DISK_FAULT_METADATA names a file, nothing is written to that (EIO); it is flushed all the same.
 * When the page cache is to be dropped, the file gets the bytes of $DISK_FAULT_MEDIUM, if that
 * names a copy of what the disk really held; with $DISK_FAULT_KEEPS_CACHE it can't be dropped. Who reads
 * past the page cache gets the bytes of that copy until then.
 * With $DISK_FAULT_UNSEEN a write-back failed before this process began, and nobody was told: as of the kernel
 * (errseq), each open file description hears of it once.
 * Where $DISK_FAULT_LOG names a file, each call of the ones below gets a line there: "CALL PATH".
 * System calls that do not go through libc (io_uring) are not reached: run the node with
 * TWINBLOCK_DISK=threads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static void log_call(const char *call, int fd) {
  const char *log = getenv("DISK_FAULT_LOG");
  if (!log) return;
  char link[64], target[4096], line[4200];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t got = readlink(link, target, sizeof target - 1);
  if (got <= 0) return;
  target[got] = 0;
  int length = snprintf(line, sizeof line, "%s %s\n", call, target);
  long file = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;
  syscall(SYS_write, (int)file, line, length);
  syscall(SYS_close, (int)file);
}

enum kind { kWrite, kRead, kFlush };

static int is_named_by(const char *variable, int fd) {
  const char *path = getenv(variable);
  char link[64], target[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t got = path ? readlink(link, target, sizeof target - 1) : -1;
  if (got <= 0) return 0;
  target[got] = 0;
  return strcmp(target, path) == 0;
}

static int is_the_disk(int fd) { return is_named_by("DISK_FAULT_PATH", fd); }

static int trigger_says(const char *word, int fd) {
  const char *trigger = getenv("DISK_FAULT_TRIGGER");
  char text[32] = {0};
  long file = trigger ? syscall(SYS_openat, AT_FDCWD, trigger, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return 0;
  syscall(SYS_read, (int)file, text, sizeof text - 1);
  syscall(SYS_close, (int)file);
  return strstr(text, word) && is_the_disk(fd);
}

/* Makes the file $DISK_FAULT_TRIGGER.WHAT, with a byte for each time. */
static void mark(const char *trigger, const char *what) {
  char path[4200];
  snprintf(path, sizeof path, "%s.%s", trigger, what);
  long file = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  syscall(SYS_write, (int)file, "x", 1);
  syscall(SYS_close, (int)file);
}

static void wait_halfway(void) {
  const char *trigger = getenv("DISK_FAULT_TRIGGER");
  mark(trigger, "halfway");
  while (access(trigger, F_OK) == 0) usleep(1000);
}

/* Who was told has the flag O_NOATIME, which duplicates share and the node does not use. */
static int is_owed_an_error(int fd) {
  if (!getenv("DISK_FAULT_UNSEEN") || !is_the_disk(fd)) return 0;
  const int flags = fcntl(fd, F_GETFL);
  if (flags & O_NOATIME) return 0;
  if (fcntl(fd, F_SETFL, flags | O_NOATIME) != 0) abort();
  return 1;
}

static void wait_hanging(int fd) {
  mark(getenv("DISK_FAULT_TRIGGER"), "slow");
  while (trigger_says("hang", fd)) usleep(1000);
}

static int fault(int fd, enum kind kind) {
  if (kind == kFlush && is_owed_an_error(fd)) return EIO;
  if (kind == kWrite && is_named_by("DISK_FAULT_METADATA", fd)) return EIO;
  const char *trigger = getenv("DISK_FAULT_TRIGGER");
  if (!trigger) return 0;
  if (kind != kRead && trigger_says("hang", fd)) wait_hanging(fd);
  /* Direct system calls: the wrappers below must not meet themselves. */
  long file = syscall(SYS_openat, AT_FDCWD, trigger, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[32] = {0};
  long length = syscall(SYS_read, (int)file, text, sizeof text - 1);
  syscall(SYS_close, (int)file);
  if (length <= 0) return 0;
  if (strstr(text, "reads") && kind != kRead) return 0;
  if (strstr(text, "writes") && kind == kRead) return 0;
  if (strstr(text, "transfers") && kind != kWrite) return 0;
  if (strstr(text, "flushes") && kind != kFlush) return 0;
  if (!is_the_disk(fd)) return 0;
  unsigned delay_us = 0;
  if (sscanf(text, "delay %u", &delay_us) == 1) {
    if (kind == kRead) return 0;
    mark(trigger, "slow");
    usleep(delay_us);
    return 0;
  }
  return atoi(text);
}

/* What each wrapper begins with: the function of libc it stands before, a line in the log, and the
 * end of the call where the disk is to fail. */
#define BEGIN_CALL(RESULT, NAME, PARAMETERS, KIND)                     \
  static RESULT(*real) PARAMETERS;                                     \
  if (!real) real = (RESULT(*) PARAMETERS)dlsym(RTLD_NEXT, #NAME);     \
  log_call(#NAME, fd);                                                 \
  const int error = fault(fd, KIND);                                   \
  if (error) {                                                         \
    errno = error;                                                     \
    return -1;                                                         \
  }

#define WRAP(RESULT, NAME, PARAMETERS, ARGUMENTS, KIND)                \
  RESULT NAME PARAMETERS {                                             \
    BEGIN_CALL(RESULT, NAME, PARAMETERS, KIND)                         \
    return real ARGUMENTS;                                             \
  }

/* Whether the file has got the bytes of the medium: from then on it is what the disk holds. */
static atomic_int restored;

/* What the disk holds, where that is not what the page cache shows; else -1. */
static long read_medium(int fd, void *data, size_t n, long at) {
  const char *medium = getenv("DISK_FAULT_MEDIUM");
  if (!medium || restored || !(fcntl(fd, F_GETFL) & O_DIRECT) || !is_the_disk(fd)) return -1;
  long from = syscall(SYS_openat, AT_FDCWD, medium, O_RDONLY | O_CLOEXEC);
  if (from < 0) abort();
  const long got = syscall(SYS_pread64, (int)from, data, n, at);
  syscall(SYS_close, (int)from);
  return got;
}

#define WRAP_READ(NAME, OFFSET)                                        \
  ssize_t NAME(int fd, void *data, size_t n, OFFSET at) {              \
    BEGIN_CALL(ssize_t, NAME, (int, void *, size_t, OFFSET), kRead)    \
    const long held = read_medium(fd, data, n, at);                    \
    if (held >= 0) return held;                                        \
    const size_t part = trigger_says("halfway", fd) ? n / 2 : n;       \
    const ssize_t got = real(fd, data, part, at);                      \
    if (got < 0 || part == n) return got;                              \
    wait_halfway();                                                    \
    const ssize_t more = real(fd, (char *)data + got, n - got, at + got); \
    return more < 0 ? more : got + more;                               \
  }

#define WRAP_SEEK(NAME, OFFSET)                                        \
  OFFSET NAME(int fd, OFFSET at, int whence) {                         \
    BEGIN_CALL(OFFSET, NAME, (int, OFFSET, int), kRead)                \
    const OFFSET found = real(fd, at, whence);                         \
    const int seek_error = errno;                                      \
    if (trigger_says("seek", fd)) wait_halfway();                      \
    errno = seek_error;                                                \
    return found;                                                      \
  }

WRAP(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), kWrite)
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at), kWrite)
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at), kWrite)
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at), kWrite)
WRAP(ssize_t, pwritev2, (int fd, const struct iovec *v, int n, off_t at, int flags),
     (fd, v, n, at, flags), kFlush)
WRAP(ssize_t, pwritev64v2, (int fd, const struct iovec *v, int n, off64_t at, int flags),
     (fd, v, n, at, flags), kFlush)
WRAP_READ(pread, off_t)
WRAP_READ(pread64, off64_t)
WRAP(ssize_t, preadv, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at), kRead)
WRAP(ssize_t, preadv64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at), kRead)
WRAP_SEEK(lseek, off_t)
WRAP_SEEK(lseek64, off64_t)
WRAP(int, fdatasync, (int fd), (fd), kFlush)
WRAP(int, fsync, (int fd), (fd), kFlush)
int sync_file_range(int fd, off64_t at, off64_t n, unsigned flags) {
  if (is_owed_an_error(fd)) {
    errno = EIO;
    return -1;
  }
  return (int)syscall(SYS_sync_file_range, fd, at, n, flags);
}

WRAP(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), kWrite)
WRAP(int, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n), kWrite)

/* What the page cache showed is gone; the next reader gets what the disk holds. */
static void restore_medium(int fd) {
  const char *medium = getenv("DISK_FAULT_MEDIUM");
  if (!medium) return;
  _Alignas(4096) static char bytes[1 << 16]; /* the file may be open for direct I/O */
  long from = syscall(SYS_openat, AT_FDCWD, medium, O_RDONLY | O_CLOEXEC);
  long got, at = 0;
  if (from < 0) abort();
  for (; (got = syscall(SYS_pread64, (int)from, bytes, sizeof bytes, at)) > 0; at += got)
    if (syscall(SYS_pwrite64, fd, bytes, got, at) != got) abort();
  syscall(SYS_close, (int)from);
  syscall(SYS_fsync, fd);
  restored = 1;
}

static int drop(int fd, int advice) {
  if (advice != POSIX_FADV_DONTNEED || !is_the_disk(fd)) return 0;
  if (getenv("DISK_FAULT_KEEPS_CACHE")) return ENOSYS;
  restore_medium(fd);
  return 0;
}

#define WRAP_ADVISE(NAME, OFFSET)                                      \
  int NAME(int fd, OFFSET at, OFFSET n, int advice) {                  \
    static int (*real)(int, OFFSET, OFFSET, int);                      \
    if (!real) real = (int (*)(int, OFFSET, OFFSET, int))dlsym(RTLD_NEXT, #NAME); \
    const int error = drop(fd, advice);                                \
    return error ? error : real(fd, at, n, advice);                    \
  }

WRAP_ADVISE(posix_fadvise, off_t)
WRAP_ADVISE(posix_fadvise64, off64_t)
