/* Writes to a device from buffers that other threads change all the time: scribble DEVICE WRITES
   What a program may do, and databases and QEMU's guests do: who mirrors such a write must read it once. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <linux/fs.h>
#include <unistd.h>

enum { kWriters = 16, kBytes = 4096 };

static int file;
static uint64_t blocks;
static atomic_long left;
static atomic_int failed, done;
static _Atomic uint64_t* buffers;

static void* scribble(void* unused) {
  for (uint64_t value = 1; !done; ++value)
    for (size_t at = 0; at < kWriters * kBytes / sizeof value; at += 61) {
      buffers[at] = value;
      if (at % (61 * 64) == 0 && done) break;
    }
  return unused;
}

static void* write_blocks(void* number) {
  unsigned seed = (unsigned)(uintptr_t)number + 1;
  char* buffer = (char*)buffers + (uintptr_t)number * kBytes;
  while (atomic_fetch_sub(&left, 1) > 0) {
    const uint64_t block = ((uint64_t)rand_r(&seed) << 20 ^ (uint64_t)rand_r(&seed)) % blocks;
    if (pwrite(file, buffer, kBytes, (off_t)(block * kBytes)) != kBytes) {
      perror("pwrite");
      failed = 1;
      break;
    }
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  file = open(argv[1], O_RDWR | O_DIRECT);
  uint64_t bytes = 0;
  if (file < 0 || ioctl(file, BLKGETSIZE64, &bytes) != 0) return perror(argv[1]), 1;
  blocks = bytes / kBytes;
  left = atol(argv[2]);
  buffers = aligned_alloc(kBytes, kWriters * kBytes);
  pthread_t scribbler, writers[kWriters];
  pthread_create(&scribbler, NULL, scribble, NULL);
  for (uintptr_t i = 0; i < kWriters; ++i) pthread_create(&writers[i], NULL, write_blocks, (void*)i);
  for (int i = 0; i < kWriters; ++i) pthread_join(writers[i], NULL);
  done = 1;
  pthread_join(scribbler, NULL);
  if (fsync(file) != 0) return perror("fsync"), 1;
  return failed;
}
