/* LD_PRELOAD: a file system that makes no holes and zeroes nothing without writing it. */
#include <errno.h>
#include <sys/types.h>

static int refuse(void) {
  errno = EOPNOTSUPP;
  return -1;
}

int fallocate(int fd, int mode, off_t at, off_t length) {
  (void)fd, (void)mode, (void)at, (void)length;
  return refuse();
}

int fallocate64(int fd, int mode, off_t at, off_t length) {
  (void)fd, (void)mode, (void)at, (void)length;
  return refuse();
}
