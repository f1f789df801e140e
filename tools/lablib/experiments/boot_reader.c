/* One machine that boots: sends the reads of a recorded boot to its clone over NBD, each read as soon as no more
 * others are under way than were in the recording, and looks at the first bytes of each block that it gets. A program
 * of its own, and in C, since many of them share two processors with what they measure.
 *
 * usage: boot_reader SOCKET BASE READS STAMPS
 *
 * READS is a file of 24-byte records: offset from BASE, length, how many others are under way. STAMPS has 16 bytes
 * for each whole block of 4 KiB of each read, in their order. Numbers are the machine's own, 64 bits. Says "ready",
 * begins at a line of input, and ends with a line: when it ended (CLOCK_MONOTONIC, ns), how many reads failed, and
 * how many blocks did not hold what they must. */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define BLOCK 4096
#define STAMP 16
#define OPTION_MAGIC UINT64_C(0x49484156454F5054)
#define OPTION_REPLY_MAGIC UINT64_C(0x3e889045565a9)
#define REQUEST_MAGIC 0x25609513u
#define REPLY_MAGIC 0x67446698u
#define OPTION_GO 7
#define REPLY_ACK 1
#define REPLY_ERROR 0x80000000u
#define FIXED_NEWSTYLE_NO_ZEROES 3
#define READ_BYTES_MAX (32 << 20)

struct one_read {
  uint64_t offset, length, under_way;
};

struct __attribute__((packed)) option {
  uint64_t magic;
  uint32_t number, length, name_length;
  uint16_t infos;
};

struct __attribute__((packed)) option_reply {
  uint64_t magic;
  uint32_t option, type, length;
};

struct __attribute__((packed)) request {
  uint32_t magic;
  uint16_t flags, type;
  uint64_t cookie, offset;
  uint32_t length;
};

struct __attribute__((packed)) reply {
  uint32_t magic, error;
  uint64_t cookie;
};

static int server;
static uint64_t failed, wrong;

static void give_up(const char* what) {
  fprintf(stderr, "boot_reader: %s: %s\n", what, errno ? strerror(errno) : "not what it should be");
  exit(1);
}

static void receive(void* into, size_t size) {
  for (char* at = into; size > 0;) {
    errno = 0;
    ssize_t n = recv(server, at, size, MSG_WAITALL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) give_up("the server");
    at += n;
    size -= (size_t)n;
  }
}

static void transmit(const void* from, size_t size) {
  if (send(server, from, size, MSG_NOSIGNAL) != (ssize_t)size) give_up("the server");
}

static void* load(const char* path, size_t* size) {
  struct stat info;
  FILE* file = fopen(path, "rb");
  if (!file || fstat(fileno(file), &info) != 0) give_up(path);
  *size = (size_t)info.st_size;
  void* data = malloc(*size + 1);
  if (!data || fread(data, 1, *size, file) != *size) give_up(path);
  fclose(file);
  return data;
}

static void enter(const char* path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (strlen(path) >= sizeof address.sun_path) give_up("a path that is too long");
  strcpy(address.sun_path, path);
  server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (server < 0 || connect(server, (struct sockaddr*)&address, sizeof address) != 0) give_up(path);
  char greeting[18];
  receive(greeting, sizeof greeting);
  if (memcmp(greeting, "NBDMAGICIHAVEOPT", 16) != 0) give_up("the greeting");
  uint32_t flags = htobe32(FIXED_NEWSTYLE_NO_ZEROES);
  transmit(&flags, sizeof flags);
  struct option go = {htobe64(OPTION_MAGIC), htobe32(OPTION_GO), htobe32(6), 0, 0};
  transmit(&go, sizeof go);
  for (struct option_reply answer;;) {
    char rest[4096];
    receive(&answer, sizeof answer);
    uint32_t type = be32toh(answer.type), length = be32toh(answer.length);
    if (be64toh(answer.magic) != OPTION_REPLY_MAGIC || length > sizeof rest) give_up("an answer");
    receive(rest, length);
    if (type & REPLY_ERROR) give_up("the export");
    if (type == REPLY_ACK) return;
  }
}

static uint64_t whole_blocks(const struct one_read* read, uint64_t* first) {
  *first = (read->offset + BLOCK - 1) / BLOCK;
  uint64_t end = (read->offset + read->length) / BLOCK;
  return end > *first ? end - *first : 0;
}

/* One answer, of whatever read. */
static void take_one(const struct one_read* reads, const uint64_t* stamps_at, const char* stamps,
                     char* buffer) {
  struct reply reply;
  receive(&reply, sizeof reply);
  if (be32toh(reply.magic) != REPLY_MAGIC) give_up("a reply");
  if (reply.error) {
    failed++;
    return;
  }
  uint64_t number = be64toh(reply.cookie), first;
  const struct one_read* read = &reads[number];
  receive(buffer, read->length);
  uint64_t blocks = whole_blocks(read, &first);
  for (uint64_t i = 0; i < blocks; i++)
    wrong += memcmp(buffer + (first + i) * BLOCK - read->offset,
                    stamps + (stamps_at[number] + i) * STAMP, STAMP) != 0;
}

int main(int argc, char** argv) {
  if (argc != 5) give_up("usage: boot_reader SOCKET BASE READS STAMPS");
  uint64_t base = strtoull(argv[2], NULL, 10), blocks = 0, longest = 0, first;
  size_t size, stamps_size;
  struct one_read* reads = load(argv[3], &size);
  uint64_t count = size / sizeof *reads;
  char* stamps = load(argv[4], &stamps_size);
  uint64_t* stamps_at = calloc(count + 1, sizeof *stamps_at);
  if (!stamps_at) give_up("memory");
  for (uint64_t i = 0; i < count; i++) {
    stamps_at[i] = blocks;
    blocks += whole_blocks(&reads[i], &first);
    if (reads[i].length > longest) longest = reads[i].length;
  }
  char* buffer = longest <= READ_BYTES_MAX ? malloc(longest + 1) : NULL;
  errno = 0;
  if (!buffer || blocks * STAMP != stamps_size) give_up("the reads");
  enter(argv[1]);
  puts("ready");
  fflush(stdout);
  while (getchar() != '\n')
    if (feof(stdin)) return 1;
  uint64_t under_way = 0;
  for (uint64_t i = 0; i < count; i++) {
    for (; under_way > reads[i].under_way; under_way--) take_one(reads, stamps_at, stamps, buffer);
    struct request request = {htobe32(REQUEST_MAGIC), 0, 0, htobe64(i), htobe64(base + reads[i].offset),
                              htobe32((uint32_t)reads[i].length)};
    transmit(&request, sizeof request);
    under_way++;
  }
  for (; under_way > 0; under_way--) take_one(reads, stamps_at, stamps, buffer);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  printf("%" PRId64 " %" PRIu64 " %" PRIu64 "\n", now.tv_sec * INT64_C(1000000000) + now.tv_nsec, failed,
         wrong);
  return 0;
}
