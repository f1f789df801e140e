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

enum class FrameType : uint8_t {
  kHello = 1,        // payload: HelloPayload; the dialler's answers kChallenge
  kRefuse = 2,       // payload: UTF-8 reason; the sender closes after it; of a join: its sequence,
                     // offset and length, and why as an errno value in status
  kVerdict = 3,      // sequence: sender's verdict code; both must agree before anything else moves
  kData = 4,         // write, zero or trim of [offset, offset + length); answered by kAck
  kFlush = 5,        // everything acknowledged so far to stable storage; answered by kAck
  kRead = 6,         // read [offset, offset + length); answered by kAck with the bytes as payload
  kAck = 7,          // sequence: of the request; status: 0 or an errno value; the peer's durations;
                     // length: a tick of the sender's clock
  kHeartbeat = 8,    // offset: a tick of the sender's clock; length: the last tick it received,
                     // aux0: how long it held that, in ns
  kRole = 9,         // sequence: 1 primary, 0 secondary; offset: sender's term; no answer
  kPromoteAsk = 10,  // may I become primary? sequence: number of the question, offset: the term it
                     // would have; answered by kPromoteAnswer
  kPromoteAnswer = 11,  // sequence: of the question; status: 0 yes, else an errno value; payload:
                        // UTF-8 reason
  kGeneration = 12,     // payload: GenerationPayload, to be made durable; answered by kAck
  kGoodbye = 13,        // payload: UTF-8 reason; orderly end of the session
  kProgress = 14,       // offset: resync bytes done; length: bytes in all; for the target's status
  kDigest = 15,         // digests of the blocks of [offset, offset + length); answered by kAck with
                        // one of kDigestBytes for each block as payload. With kFlagZero: the range
                        // is a hole here; answered by kAck with a HolePayload
  kDirty = 16,          // of the target's own set: the chunk at [offset, offset + length); payload:
                        // one bit a block, or none: all of it; no answer
  kJoin = 17,         // a further connection: offset and length: the session's id, sequence: the
                      // connection's incarnation, aux0: the challenge; answered by the same frame
  kRetire = 18,       // sequence: incarnation of a connection that is dead and closed at the sender
  kRetired = 19,      // … and all work that came to the sender over it has ended
  kLinkChange = 20,   // payload: LinkChangePayload; answered by kAck with a UTF-8 reason as payload
  kCompression = 21,  // how data is to travel, ordered at the sender: sequence: mode (0 off, 1 on,
                      // 2 auto), offset: level, length: how many orders there have been; no answer
  kTimes = 22,  // what the sender's kernel said of a sampled request: sequence: of the request;
                // aux0: ns between the request's arrival and the answer's departure at its
                // network device; offset: ns of that until its loop had read the request,
                // length: ns from its answer to the network device, aux1: of those, ns in the
                // device's queue; no answer
  kChallenge = 23,  // the first frame of who has accepted a connection: offset: a number that it
                    // has never used before; a hello or join that does not repeat it is of an
                    // earlier connection
  kSettings = 24,   // payload: SettingsPayload; no answer
};
constexpr size_t kDigestBytes = 16;

// Bits of FrameHeader::flags.
enum FrameFlag : uint8_t {
  kFlagFua = 1,         // kData: on stable storage, with all that was acknowledged before
  kFlagZero = 2,        // kData: no payload, the range becomes zero; kDigest: it is a hole here
  kFlagUnmap = 4,       // kData with kFlagZero: may become a hole
  kFlagCompressed = 8,  // kData: the payload is one zstd frame with the range's bytes, shorter
                        // than those
  kFlagResync = 16,     // kData: a resync write, not a client's
  kFlagControl = 32,    // of the control stream: aux1 is its number there
  kFlagSample = 64,     // kData: the receiver is asked for times, too
};
constexpr uint8_t kFlagsKnown =
    kFlagFua | kFlagZero | kFlagUnmap | kFlagCompressed | kFlagResync | kFlagSample;

struct FrameHeader {
  uint32_t header_crc;     // CRC-32C of the 60 bytes that follow
  uint32_t magic;          // kMagic
  uint8_t type;            // FrameType
  uint8_t flags;           // FrameFlag bits
  uint16_t reserved0;      // zero
  uint32_t payload_bytes;  // that follow this header
  uint64_t sequence;       // of requests: unique in a session, ascending; of answers: the request's
  uint64_t offset;         // bytes
  uint64_t length;         // bytes
  uint32_t payload_crc;    // CRC-32C of the payload; zero without one
  uint32_t status;         // errno value in answers, else zero
  uint64_t aux0;  // kAck: ns from the arrival of the whole request to the end of its disk work
  uint64_t aux1;  // kAck: ns of the disk work alone; frames of the control stream: number
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
  kHelloFlushFailed = 8192,  // a flush failed there: what reads as written may not be on its disk
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
};

static_assert(sizeof(HelloPayload) == 2 + 2 + 4 + 8 + 8 + 16 + 16 + 8 + 8 + 64 + 4 * 64 + 80);
static_assert(offsetof(HelloPayload, volume) == 136);
static_assert(offsetof(HelloPayload, term) == 392);
static_assert(offsetof(HelloPayload, nonce) == 440);
static_assert(offsetof(HelloPayload, state_id) == 456);

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

constexpr uint32_t kGenerationFlagsKnown = 2 * kGenerationSoleCopy - 1;

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

// What the sender's configuration file says and the receiver's should say, too; told to users where
// they differ, decides nothing.
constexpr size_t kSettingsLinks = 8;
struct SettingsPayload {
  uint64_t peer_timeout_ns;
  uint64_t link_timeout_ns;
  uint64_t disk_timeout_ns;
  uint8_t on_peer_loss;  // 0 continue, 1 freeze
  uint8_t compression;   // as in kCompression
  uint8_t level;
  uint8_t links;      // how many of those below
  uint32_t reserved;  // zero
  struct Link {
    uint64_t rate_bits_per_s;
    char name[kNameBytes];
    char address[2][kNameBytes];  // as in LinkChangePayload
  } link[kSettingsLinks];  // the rest is zero
};

static_assert(sizeof(SettingsPayload) == 32 + kSettingsLinks * 200);

// Longest payloads by kind, checked before anything is allocated.
constexpr uint32_t kTextBytesMax = 512;

}  // namespace twinblock::wire
