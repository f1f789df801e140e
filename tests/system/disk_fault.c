/* LD_PRELOAD: makes one file's disk fail. While the file $DISK_FAULT_TRIGGER exists, calls on
 * $DISK_FAULT_PATH return the errno value that is written in it; where it says "delay N", writes
 * take N us longer. Where $DISK_FAULT_LOG names a file, each call of the
 * ones below gets a line there: "CALL PATH". System calls that do not go
 * through libc (io_uring) are not reached: run the node with TWINBLOCK_DISK=threads. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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

static int fault(int fd, int is_read) {
  const char *path = getenv("DISK_FAULT_PATH");
  const char *trigger = getenv("DISK_FAULT_TRIGGER");
  if (!path || !trigger) return 0;
  /* Direct system calls: the wrappers below must not meet themselves. */
  long file = syscall(SYS_openat, AT_FDCWD, trigger, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  char text[32] = {0};
  long length = syscall(SYS_read, (int)file, text, sizeof text - 1);
  syscall(SYS_close, (int)file);
  if (length <= 0) return 0;
  if (strstr(text, is_read ? "writes" : "reads")) return 0;
  char link[64], target[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t got = readlink(link, target, sizeof target - 1);
  if (got <= 0) return 0;
  target[got] = 0;
  if (strcmp(target, path) != 0) return 0;
  unsigned delay_us = 0;
  if (sscanf(text, "delay %u", &delay_us) == 1) {
    if (!is_read) usleep(delay_us);
    return 0;
  }
  return atoi(text);
}

#define WRAP(RESULT, NAME, PARAMETERS, ARGUMENTS, IS_READ)                   \
  RESULT NAME PARAMETERS {                                                   \
    static RESULT(*real) PARAMETERS;                                         \
    if (!real) real = (RESULT(*) PARAMETERS)dlsym(RTLD_NEXT, #NAME);         \
    log_call(#NAME, fd);                                                     \
    int error = fault(fd, IS_READ);                                          \
    if (error) {                                                             \
      errno = error;                                                         \
      return -1;                                                             \
    }                                                                        \
    return real ARGUMENTS;                                                   \
  }

WRAP(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), (fd, data, n, at), 0)
WRAP(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), (fd, data, n, at), 0)
WRAP(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at), 0)
WRAP(ssize_t, pwritev64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at), 0)
WRAP(ssize_t, pread, (int fd, void *data, size_t n, off_t at), (fd, data, n, at), 1)
WRAP(ssize_t, pread64, (int fd, void *data, size_t n, off64_t at), (fd, data, n, at), 1)
WRAP(ssize_t, preadv, (int fd, const struct iovec *v, int n, off_t at), (fd, v, n, at), 1)
WRAP(ssize_t, preadv64, (int fd, const struct iovec *v, int n, off64_t at), (fd, v, n, at), 1)
WRAP(off_t, lseek, (int fd, off_t at, int whence), (fd, at, whence), 1)
WRAP(off64_t, lseek64, (int fd, off64_t at, int whence), (fd, at, whence), 1)
WRAP(int, fdatasync, (int fd), (fd), 0)
WRAP(int, fsync, (int fd), (fd), 0)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n), 0)
WRAP(int, fallocate64, (int fd, int mode, off64_t at, off64_t n), (fd, mode, at, n), 0)
