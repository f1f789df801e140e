// The bytes on a link, protocol version 1: fixed-size little-endian structs and nothing else.
// Prose and sequences: PROTOCOL.md beside this file.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace twinblock::wire {

static_assert(std::endian::native == std::endian::little,
              "frames are copied as they lie in memory; a big-endian port needs byte swaps here");

constexpr uint32_t kMagic = 0x31425754;  // "TWB1" as bytes
constexpr uint16_t kProtocolVersion = 1;

// What each one says, and where: frames.h.
enum class FrameType : uint8_t {
  kHello = 1,
  kRefuse = 2,
  kVerdict = 3,
  kData = 4,
  kFlush = 5,
  kRead = 6,
  kAck = 7,
  kHeartbeat = 8,
  kRole = 9,
  kPromoteAsk = 10,
  kPromoteAnswer = 11,
  kGeneration = 12,
  kGoodbye = 13,
  kProgress = 14,
  kDigest = 15,
  kDirty = 16,
  kJoin = 17,
  kRetire = 18,
  kRetired = 19,
  kLinkChange = 20,
  kCompression = 21,
  kTimes = 22,
  kChallenge = 23,
  kSettings = 24,
  kProbe = 25,
  kProbeHost = 26,
  kProbeAsk = 27,
  kProbeAnswer = 28,
  kProbeData = 29,
  kProbeReport = 30,
  kGrow = 31,
  kSnapshot = 32,
};
constexpr uint8_t kFrameTypeLast = 32;
constexpr size_t kDigestBytes = 16;

// Bits of FrameHeader::flags; which frame has which: frames.h.
enum FrameFlag : uint8_t {
  kFlagFua = 1,
  kFlagZero = 2,
  kFlagUnmap = 4,
  kFlagCompressed = 8,
  kFlagResync = 16,
  kFlagControl = 32,  // of the control stream: aux1 is its number there
  kFlagSample = 64,
  kFlagStalled = 128,
};

// How a frame travels.
enum class Stream : uint8_t {
  kHandshake,  // before the connection is one of a session
  kUnordered,  // over any connection
  kOrdered,    // on the control stream: in order, and never lost while the session stands
  kEither,     // an answer: as its request did
};

// What is known of a frame by its type alone.
struct Kind {
  FrameType type;
  const char* name;
  Stream stream;
  uint32_t payload_min = 0;  // bytes
  uint32_t payload_max = 0;
};

// sequence, offset, length, status, aux0 and aux1 are slots: frames.h says what lies in them, and
// what a frame does not use is zero.
struct FrameHeader {
  uint32_t header_crc;     // CRC-32C of the 60 bytes that follow
  uint32_t magic;          // kMagic
  uint8_t type;            // FrameType
  uint8_t flags;           // FrameFlag bits
  uint16_t reserved0;      // zero
  uint32_t payload_bytes;  // that follow this header
  uint64_t sequence;
  uint64_t offset;
  uint64_t length;
  uint32_t payload_crc;  // CRC-32C of the payload; zero without one
  uint32_t status;
  uint64_t aux0;
  uint64_t aux1;  // with kFlagControl: the frame's number on the control stream
};

static_assert(sizeof(FrameHeader) == 64);
static_assert(offsetof(FrameHeader, payload_bytes) == 12);
static_assert(offsetof(FrameHeader, sequence) == 16);
static_assert(offsetof(FrameHeader, offset) == 24);
static_assert(offsetof(FrameHeader, length) == 32);
static_assert(offsetof(FrameHeader, payload_crc) == 40);
static_assert(offsetof(FrameHeader, status) == 44);
static_assert(offsetof(FrameHeader, aux0) == 48);

constexpr size_t kNameBytes = 64;
constexpr size_t kHistoryEntries = 8;
constexpr size_t kSessionEntries = 32;

// Bits of HelloPayload::flags.
enum HelloFlag : uint32_t {
  kHelloBlank = 1,           // no metadata yet: uuid and generations are zero
  kHelloJoinable = 2,        // blank, and its data may be overwritten
  kHelloPrimary = 4,         // primary now
  kHelloCrashed = 8,         // was primary when it last stopped
  kHelloInconsistent = 16,   // an unfinished resync target, or a replica that failed
  kHelloDiskFailed = 32,     // its disk fails now; no use as a target
  kHelloDirty = 64,          // knows of blocks that the peer misses
  kHelloMapValid = 128,      // its own set of blocks that may differ is complete
  kHelloFastZero = 256,      // zeroes without writing them
  kHelloDiscard = 512,       // ordered by the operator: its own writes are given up
  kHelloKeep = 1024,         // ordered by the operator: the receiver's writes are given up
  kHelloBackingLost = 2048,  // its backing holds nothing at all, although it was initialised
  kHelloRebooted = 4096,     // crashed, and its host has been started anew since
  kHelloForgot = 16384,      // its process began with a page cache that had dropped what a flush had lost
  kHelloResumes = 32768,     // was primary when its process ended, and would go on as that
  kHelloFlushFailed = 8192,  // a flush failed there: what reads as written may not be on its disk
  kHelloConsented = 65536,   // primary, and has the right to go on alone (a witness gave it)
  kHelloAsksRegister = 131072,  // its file has a witness that is a register (etcd), …
  kHelloAsksCommand = 262144,   // … or a fence command
  kHelloOtherBacking = 524288,  // its backing is not the one that its record is about
  kHelloMovedTogether = 1048576,  // … and that lies in another place, too
};

struct HelloPayload {
  uint16_t version_min;  // protocol versions that the sender speaks
  uint16_t version_max;
  uint32_t flags;           // HelloFlag bits
  uint64_t features;        // feature bits; none in version 1, zero
  uint64_t size_bytes;      // of the volume
  uint8_t volume_uuid[16];  // blank: of the volume that it was ordered to join, or zero
  uint8_t instance[16];     // random, anew at each start of the process
  uint64_t generation_current;
  uint64_t generation_base;
  uint64_t generation_history[kHistoryEntries];
  char volume[kNameBytes];  // NUL-padded
  char node[kNameBytes];
  char peer[kNameBytes];  // the node that the sender means to talk to
  char link[kNameBytes];
  uint64_t term;           // counts promotions: the node with the higher one was primary later
  uint64_t dirty_bytes;    // to tell a user: in the sender's own set of blocks that may differ
  uint64_t since_s;        // to tell a user: Unix time at which generation_current began; 0: unknown
  uint64_t boot;           // of the sender's host; 0: not known
  uint64_t peer_instance;  // the receiver's process when the sender last took it along in what it
                           // wrote: the first 8 bytes of its `instance`; 0: none …
  uint64_t peer_boot;      // … and its `boot`
  // Random, of this connection: the acceptor's is its challenge. The two together are the session's
  // id, the dialler's first.
  uint64_t nonce;
  uint64_t echo;  // the receiver's nonce: this hello answers it, and is no recording
  uint64_t state_id;       // what the sender's replica is at this moment, for orders to name
  uint64_t gives_up;       // with kHelloDiscard or kHelloKeep: the state that the order names
  uint64_t sessions[kSessionEntries];  // with the receiver, as on record …
  uint64_t session_begun;              // … and one that has begun since; 0: none
};

static_assert(sizeof(HelloPayload) == 2 + 2 + 4 + 8 + 8 + 16 + 16 + 8 + 8 + 64 + 4 * 64 + 80 + 33 * 8);
static_assert(offsetof(HelloPayload, volume) == 136);
static_assert(offsetof(HelloPayload, term) == 392);
static_assert(offsetof(HelloPayload, nonce) == 440);
static_assert(offsetof(HelloPayload, state_id) == 456);
static_assert(offsetof(HelloPayload, sessions) == 472);

struct GenerationPayload {
  uint64_t current;
  uint64_t base;
  uint64_t history[kHistoryEntries];
  uint8_t volume_uuid[16];
  uint32_t flags;  // GenerationFlag bits
  uint32_t reserved;  // zero
};

// What the receiver records together with the generation.
enum GenerationFlag : uint32_t {
  kGenerationInconsistent =
      1,                      // a resync begins: the receiver's replica is half-copied from now on
  kGenerationConsistent = 2,  // a resync has ended: the receiver's replica is whole
  kGenerationSoleCopy = 4,    // the sender's disk failed: the receiver holds the only good replica
};

// What a receiver answers to the last one that has put nothing on record, and does not: its own disk has failed, too, or
// that of its metadata has. No disk fails with these: errno.h knows none as large. (With any other error it may have.)
constexpr uint32_t kCanNotStandIn = 4001;
constexpr uint32_t kCanNotRecord = 4002;

static_assert(sizeof(GenerationPayload) == 104);

// What a node finds where the other one has a hole. Both are bytes, at most the range.
struct HolePayload {
  uint64_t zero_bytes;  // from the range's start, that are a hole here, too
  uint64_t data_bytes;  // behind these, that are none
};

static_assert(sizeof(HolePayload) == 16);

// What happens to a link, on both nodes.
enum class LinkChange : uint32_t { kAdd = 1, kRemove = 2, kEnable = 3, kDisable = 4 };

struct LinkChangePayload {
  uint32_t change;              // LinkChange
  uint32_t reserved;            // zero
  uint64_t number;              // of the order: where two contradict, the higher one holds
  uint64_t rate_bits_per_s;     // nominal; 0: not known
  char name[kNameBytes];        // NUL-padded, as are the addresses: numeric "IP:port"
  char address[2][kNameBytes];  // of the node with the lower name, of the other one
};

static_assert(sizeof(LinkChangePayload) == 216);

// Of data, in orders and settings: 0 off, 1 on, 2 auto.
constexpr uint8_t kCompressionModeMax = 2;

// What the sender's configuration file says and the receiver's should say, too; told to users where
// they differ, decides nothing.
constexpr size_t kSettingsLinks = 8;
constexpr uint8_t kWitnessKindMax = 2;

struct SettingsPayload {
  uint64_t peer_timeout_ns;
  uint64_t link_timeout_ns;
  uint64_t disk_timeout_ns;
  uint8_t on_peer_loss;  // 0 continue, 1 freeze
  uint8_t compression;   // mode
  uint8_t level;
  uint8_t links;      // how many of those below
  uint8_t witness;    // 0 none, 1 etcd, 2 a command
  uint8_t reserved[3];  // zero
  struct Link {
    uint64_t rate_bits_per_s;
    char name[kNameBytes];
    char address[2][kNameBytes];  // as in LinkChangePayload
  } link[kSettingsLinks];  // the rest is zero
};

static_assert(sizeof(SettingsPayload) == 32 + kSettingsLinks * 200);

// What a host says of its end of a link, for a probe. 0: not known, and so for a name that is empty.
struct ProbeHostPayload {
  char interface[kNameBytes];   // NUL-padded, as is the next one
  char congestion[kNameBytes];  // control of its streams
  uint64_t rate_bits_per_s;     // of the interface
  uint64_t receive_buffer_max;  // bytes that a socket's buffer may grow to, …
  uint64_t send_buffer_max;     // … by this host's settings
  uint64_t receive_errors;      // frames, since the interface came up
  uint64_t send_errors;
  uint64_t dropped;
  uint64_t collisions;
  uint32_t mtu;          // bytes
  uint32_t half_duplex;  // 1: it is
};

static_assert(sizeof(ProbeHostPayload) == 2 * kNameBytes + 64);

// Longest payloads by kind, checked before anything is allocated.
constexpr uint32_t kTextBytesMax = 512;

}  // namespace twinblock::wire
