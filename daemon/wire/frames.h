// What each frame says: one struct for each type. Its kind and the slots of its fields are here and
// nowhere else (PROTOCOL.md has the same tables, which a unit test compares); to_header() and
// frame_as() of fields.h go from one to the other. A field has one meaning, in its own unit; what
// travels as a payload is in frame_format.h. Pure; any thread.
#pragma once

#include "base/limits.h"
#include "wire/fields.h"
#include "wire/verdicts.h"

namespace twinblock::wire {

using H = FrameHeader;
constexpr uint64_t kErrnoMax = 4095;  // Linux: MAX_ERRNO

// --- before a session stands

struct ChallengeFrame {  // the first frame of who has accepted a connection
  static constexpr Kind kKind{FrameType::kChallenge, "challenge", Stream::kHandshake};
  uint64_t nonce = 0;  // never used before; a hello or join that does not repeat it is of an
                       // earlier connection
  static constexpr auto fields() {
    return std::tuple(field("nonce", &ChallengeFrame::nonce, &H::offset));
  }
};

struct HelloFrame {  // payload: HelloPayload; the dialler's answers the challenge
  static constexpr Kind kKind{FrameType::kHello, "hello", Stream::kHandshake, sizeof(HelloPayload),
                              sizeof(HelloPayload)};
  static constexpr auto fields() { return std::tuple(); }
};

struct RefuseFrame {  // payload: why, as text; the sender closes after it
  static constexpr Kind kKind{FrameType::kRefuse, "refuse", Stream::kHandshake, 0, kTextBytesMax};
  uint64_t nonce = 0;        // of a hello that is refused: its own; else 0
  uint64_t incarnation = 0;  // of a join that is refused, as are the next two: its own …
  uint64_t dialler = 0;      // … and the session's id
  uint64_t acceptor = 0;
  uint32_t error = 0;  // errno: ESTALE: no such session any more; EAGAIN: ask again; else 0
  static constexpr auto fields() {
    return std::tuple(field("nonce", &RefuseFrame::nonce, &H::aux0),
                      field("incarnation", &RefuseFrame::incarnation, &H::sequence),
                      field("dialler", &RefuseFrame::dialler, &H::offset),
                      field("acceptor", &RefuseFrame::acceptor, &H::length),
                      field("error", &RefuseFrame::error, &H::status, 0, kErrnoMax));
  }
};

struct VerdictFrame {  // both sides' must mirror each other before anything else moves
  static constexpr Kind kKind{FrameType::kVerdict, "verdict", Stream::kHandshake};
  Verdict verdict = Verdict::kInSync;
  static constexpr auto fields() {
    return std::tuple(field("verdict", &VerdictFrame::verdict, &H::sequence, kVerdictFirst,
                            kVerdictLast));
  }
};

struct JoinFrame {  // a further connection of a session; answered by the same one, or by refuse
  static constexpr Kind kKind{FrameType::kJoin, "join", Stream::kHandshake};
  uint64_t incarnation = 0;  // of the connection, unique in the session
  uint64_t dialler = 0;      // the session's id: the nonce of who dialled its first connection …
  uint64_t acceptor = 0;     // … and of who accepted that
  uint64_t challenge = 0;    // that it answers; 0 in the answer
  bool renews = false;       // nothing is wrong with the connection whose place it takes; false in the answer
  static constexpr auto fields() {
    return std::tuple(field("incarnation", &JoinFrame::incarnation, &H::sequence),
                      field("dialler", &JoinFrame::dialler, &H::offset),
                      field("acceptor", &JoinFrame::acceptor, &H::length),
                      field("challenge", &JoinFrame::challenge, &H::aux0),
                      field("renews", &JoinFrame::renews, &H::status, 0, 1));
  }
};

// --- a probe of a link, on a connection of its own

struct ProbeFrame {  // what a dialler says in place of a hello; answered by probe-host, or by refuse
  static constexpr Kind kKind{FrameType::kProbe, "probe", Stream::kHandshake};
  uint64_t challenge = 0;  // the nonce that it answers
  static constexpr auto fields() {
    return std::tuple(field("challenge", &ProbeFrame::challenge, &H::aux0));
  }
};

struct ProbeHostFrame {  // payload: ProbeHostPayload, of the acceptor's host
  static constexpr Kind kKind{FrameType::kProbeHost, "probe-host", Stream::kHandshake,
                              sizeof(ProbeHostPayload), sizeof(ProbeHostPayload)};
  static constexpr auto fields() { return std::tuple(); }
};

struct ProbeAskFrame {  // payload: any bytes; answered by probe-answer
  static constexpr Kind kKind{FrameType::kProbeAsk, "probe-ask", Stream::kHandshake, 0,
                              limits::kProbePayloadBytesMax};
  uint64_t number = 0;
  static constexpr auto fields() {
    return std::tuple(field("number", &ProbeAskFrame::number, &H::sequence));
  }
};

struct ProbeAnswerFrame {
  static constexpr Kind kKind{FrameType::kProbeAnswer, "probe-answer", Stream::kHandshake};
  uint64_t number = 0;  // of what it answers
  static constexpr auto fields() {
    return std::tuple(field("number", &ProbeAnswerFrame::number, &H::sequence));
  }
};

struct ProbeDataFrame {  // payload: any bytes; a part of a stream, whose last one is answered by probe-report
  static constexpr Kind kKind{FrameType::kProbeData, "probe-data", Stream::kHandshake, 0,
                              limits::kProbePayloadBytesMax};
  bool last = false;
  static constexpr auto fields() {
    return std::tuple(field("last", &ProbeDataFrame::last, &H::status, 0, 1));
  }
};

struct ProbeReportFrame {  // payload: what came in each interval, from the first byte on; 32 bits each
  static constexpr Kind kKind{FrameType::kProbeReport, "probe-report", Stream::kHandshake, 0,
                              limits::kProbeIntervalsMax * 4};
  uint64_t received_bytes = 0;
  uint64_t passed_ns = 0;  // from the first byte to the last
  uint64_t buffer_bytes = 0;  // that the receiving socket has had, at the end
  static constexpr auto fields() {
    return std::tuple(field("received", &ProbeReportFrame::received_bytes, &H::length),
                      field("passed", &ProbeReportFrame::passed_ns, &H::offset),
                      field("buffer", &ProbeReportFrame::buffer_bytes, &H::aux0));
  }
};

// --- requests in any order, and what answers them

struct DataFrame {  // write, zero or trim; payload: the bytes, perhaps compressed
  static constexpr Kind kKind{FrameType::kData, "data", Stream::kUnordered, 0,
                              limits::kFramePayloadBytesMax};
  uint64_t request = 0;  // number, as in every request: unique in a session, ascending
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  bool fua = false;         // on stable storage, with all that was acknowledged before
  bool zero = false;        // no payload, the range becomes zero
  bool unmap = false;       // with zero: it may become a hole
  bool compressed = false;  // the payload is one zstd frame with the bytes, shorter than those
  bool resync = false;      // not a client's
  bool sample = false;      // the receiver is asked for times, too
  static constexpr auto fields() {
    return std::tuple(field("request", &DataFrame::request, &H::sequence),
                      field("offset", &DataFrame::offset_bytes, &H::offset),
                      field("length", &DataFrame::length_bytes, &H::length),
                      flag("fua", &DataFrame::fua, kFlagFua),
                      flag("zero", &DataFrame::zero, kFlagZero),
                      flag("unmap", &DataFrame::unmap, kFlagUnmap),
                      flag("compressed", &DataFrame::compressed, kFlagCompressed),
                      flag("resync", &DataFrame::resync, kFlagResync),
                      flag("sample", &DataFrame::sample, kFlagSample));
  }
};

struct FlushFrame {  // everything acknowledged so far to stable storage
  static constexpr Kind kKind{FrameType::kFlush, "flush", Stream::kUnordered};
  uint64_t request = 0;
  static constexpr auto fields() {
    return std::tuple(field("request", &FlushFrame::request, &H::sequence));
  }
};

struct ReadFrame {  // answered with the range's bytes
  static constexpr Kind kKind{FrameType::kRead, "read", Stream::kUnordered};
  uint64_t request = 0;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  static constexpr auto fields() {
    return std::tuple(field("request", &ReadFrame::request, &H::sequence),
                      field("offset", &ReadFrame::offset_bytes, &H::offset),
                      field("length", &ReadFrame::length_bytes, &H::length));
  }
};

struct DigestFrame {  // answered with kDigestBytes for each block; of a hole, with a HolePayload
  static constexpr Kind kKind{FrameType::kDigest, "digest", Stream::kUnordered};
  uint64_t request = 0;
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  bool hole = false;  // the range is one at the sender: is it one at the receiver?
  static constexpr auto fields() {
    return std::tuple(field("request", &DigestFrame::request, &H::sequence),
                      field("offset", &DigestFrame::offset_bytes, &H::offset),
                      field("length", &DigestFrame::length_bytes, &H::length),
                      flag("hole", &DigestFrame::hole, kFlagZero));
  }
};

// Over the connection of its request, or on the control stream where that came there: then its
// times are 0.
struct AckFrame {
  static constexpr Kind kKind{FrameType::kAck, "ack", Stream::kEither, 0,
                              limits::kFramePayloadBytesMax};
  uint64_t request = 0;
  uint32_t error = 0;    // errno; 0: done
  uint64_t sent_ns = 0;  // on the sender's clock
  uint64_t held_ns = 0;  // from the arrival of the whole request to the end of its disk work …
  uint64_t disk_ns = 0;  // … and of that, the disk work alone
  static constexpr auto fields() {
    return std::tuple(field("request", &AckFrame::request, &H::sequence),
                      field("error", &AckFrame::error, &H::status, 0, kErrnoMax),
                      field("sent", &AckFrame::sent_ns, &H::length),
                      field("held", &AckFrame::held_ns, &H::aux0),
                      field("disk", &AckFrame::disk_ns, &H::offset));
  }
};

struct TimesFrame {  // what the sender's kernel said of a request that was sampled
  static constexpr Kind kKind{FrameType::kTimes, "times", Stream::kUnordered};
  uint64_t request = 0;
  uint64_t turnaround_ns = 0;  // between its arrival and its answer's departure at the device
  uint64_t receive_ns = 0;     // … of that, until the sender's loop had read it
  uint64_t send_ns = 0;        // … from its answer to the device
  uint64_t queue_ns = 0;       // … of those, in the device's queue
  static constexpr auto fields() {
    return std::tuple(field("request", &TimesFrame::request, &H::sequence),
                      field("turnaround", &TimesFrame::turnaround_ns, &H::aux0),
                      field("receive", &TimesFrame::receive_ns, &H::offset),
                      field("send", &TimesFrame::send_ns, &H::length),
                      field("queue", &TimesFrame::queue_ns, &H::aux1));
  }
};

struct HeartbeatFrame {  // on each connection
  static constexpr Kind kKind{FrameType::kHeartbeat, "heartbeat", Stream::kUnordered};
  uint64_t sent_ns = 0;     // on the sender's clock
  uint64_t echo_ns = 0;     // the last sent_ns that it has of the receiver here; 0: none yet …
  uint64_t held_ns = 0;     // … which it has had for so long
  uint64_t received = 0;    // the last frame of the control stream that it has
  bool full = false;        // it does not read just now, as it has enough to do
  uint64_t disk_still_ns = 0;  // for how long its disk has not got on; 0: it has nothing to do
  bool stalled = false;        // that is of a primary's own requests, as its disk stands still
  static constexpr auto fields() {
    return std::tuple(field("sent", &HeartbeatFrame::sent_ns, &H::offset),
                      field("echo", &HeartbeatFrame::echo_ns, &H::length),
                      field("held", &HeartbeatFrame::held_ns, &H::aux0),
                      field("received", &HeartbeatFrame::received, &H::sequence),
                      field("full", &HeartbeatFrame::full, &H::status, 0, 1),
                      field("disk still", &HeartbeatFrame::disk_still_ns, &H::aux1),
                      flag("stalled", &HeartbeatFrame::stalled, kFlagStalled));
  }
};

// --- the control stream

struct RoleFrame {
  static constexpr Kind kKind{FrameType::kRole, "role", Stream::kOrdered};
  bool primary = false;  // the sender has become primary, else secondary
  uint64_t term = 0;     // the sender's
  static constexpr auto fields() {
    return std::tuple(field("primary", &RoleFrame::primary, &H::sequence, 0, 1),
                      field("term", &RoleFrame::term, &H::offset));
  }
};

struct PromoteAskFrame {  // may I become primary?
  static constexpr Kind kKind{FrameType::kPromoteAsk, "promote-ask", Stream::kOrdered};
  uint64_t question = 0;  // number in this session
  uint64_t term = 0;      // that this would begin
  static constexpr auto fields() {
    return std::tuple(field("question", &PromoteAskFrame::question, &H::sequence),
                      field("term", &PromoteAskFrame::term, &H::offset));
  }
};

struct PromoteAnswerFrame {  // payload: why, as text
  static constexpr Kind kKind{FrameType::kPromoteAnswer, "promote-answer", Stream::kOrdered, 0,
                              kTextBytesMax};
  uint64_t question = 0;
  uint32_t error = 0;  // errno; 0: yes
  static constexpr auto fields() {
    return std::tuple(field("question", &PromoteAnswerFrame::question, &H::sequence),
                      field("error", &PromoteAnswerFrame::error, &H::status, 0, kErrnoMax));
  }
};

struct GenerationFrame {  // payload: GenerationPayload, to be made durable; answered by ack
  static constexpr Kind kKind{FrameType::kGeneration, "generation", Stream::kOrdered,
                              sizeof(GenerationPayload), sizeof(GenerationPayload)};
  uint64_t request = 0;
  static constexpr auto fields() {
    return std::tuple(field("request", &GenerationFrame::request, &H::sequence));
  }
};

struct DirtyFrame {  // a chunk of the target's own set; payload: a bit a block, or none: all of it
  static constexpr Kind kKind{FrameType::kDirty, "dirty", Stream::kOrdered, 0,
                              limits::kMapChunkBitsBytes};
  uint64_t offset_bytes = 0;
  uint64_t length_bytes = 0;
  static constexpr auto fields() {
    return std::tuple(field("offset", &DirtyFrame::offset_bytes, &H::offset),
                      field("length", &DirtyFrame::length_bytes, &H::length));
  }
};

struct ProgressFrame {  // of a resync, for the target's status
  static constexpr Kind kKind{FrameType::kProgress, "progress", Stream::kOrdered};
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;
  static constexpr auto fields() {
    return std::tuple(field("done", &ProgressFrame::done_bytes, &H::offset),
                      field("total", &ProgressFrame::total_bytes, &H::length));
  }
};

struct CompressionFrame {  // how data is to travel, as ordered at the sender
  static constexpr Kind kKind{FrameType::kCompression, "compression", Stream::kOrdered};
  uint8_t mode = 0;     // 0 off, 1 on, 2 auto
  uint8_t level = 1;    // zstd's
  uint64_t number = 0;  // how many orders there have been, this one included
  static constexpr auto fields() {
    return std::tuple(
        field("mode", &CompressionFrame::mode, &H::sequence, 0, kCompressionModeMax),
        field("level", &CompressionFrame::level, &H::offset, limits::kCompressionLevelMin,
              limits::kCompressionLevelMax),
        field("number", &CompressionFrame::number, &H::length));
  }
};

struct GoodbyeFrame {  // payload: why, as text; the orderly end of the session
  static constexpr Kind kKind{FrameType::kGoodbye, "goodbye", Stream::kOrdered, 0, kTextBytesMax};
  static constexpr auto fields() { return std::tuple(); }
};

struct RetireFrame {  // a connection is dead and closed at the sender (earlier versions, while work of it goes on)
  static constexpr Kind kKind{FrameType::kRetire, "retire", Stream::kOrdered};
  uint64_t incarnation = 0;  // of the connection
  static constexpr auto fields() {
    return std::tuple(field("incarnation", &RetireFrame::incarnation, &H::sequence));
  }
};

struct RetiredFrame {  // a connection is dead and closed at the sender; what comes again is not begun twice
  static constexpr Kind kKind{FrameType::kRetired, "retired", Stream::kOrdered};
  uint64_t incarnation = 0;
  static constexpr auto fields() {
    return std::tuple(field("incarnation", &RetiredFrame::incarnation, &H::sequence));
  }
};

struct LinkChangeFrame {  // payload: LinkChangePayload; answered by ack with a text as payload
  static constexpr Kind kKind{FrameType::kLinkChange, "link-change", Stream::kOrdered,
                              sizeof(LinkChangePayload), sizeof(LinkChangePayload)};
  uint64_t request = 0;
  static constexpr auto fields() {
    return std::tuple(field("request", &LinkChangeFrame::request, &H::sequence));
  }
};

struct GrowFrame {  // the volume is to be larger; answered by ack with a text as payload, when it is, durably
  static constexpr Kind kKind{FrameType::kGrow, "grow", Stream::kOrdered};
  uint64_t request = 0;
  uint64_t size_bytes = 0;
  static constexpr auto fields() {
    return std::tuple(field("request", &GrowFrame::request, &H::sequence),
                      field("size", &GrowFrame::size_bytes, &H::length, limits::kVolumeBytesMin,
                            limits::kVolumeBytesMax));
  }
};

enum class SnapshotStep : uint8_t {
  kFlush = 1,  // what was written is made stable, so that the copy need not
  kTake = 2,   // the copy; the sender lets nobody write until it has been taken on both nodes
  kKeep = 3,   // … is made durable, and has its name
  kDrop = 4,   // … is removed, kept or not
};

// A step of a snapshot of both backings is to be done; payload: its name; answered by ack with a text as payload.
struct SnapshotFrame {
  static constexpr Kind kKind{FrameType::kSnapshot, "snapshot", Stream::kOrdered, 1, limits::kSnapshotNameBytesMax};
  uint64_t request = 0;
  SnapshotStep step = SnapshotStep::kFlush;
  uint64_t number = 0;  // of the step, as the sender counts; the same again asks how it stands
  static constexpr auto fields() {
    return std::tuple(field("request", &SnapshotFrame::request, &H::sequence),
                      field("step", &SnapshotFrame::step, &H::offset, 1, 4),
                      field("number", &SnapshotFrame::number, &H::length));
  }
};

struct SettingsFrame {  // payload: SettingsPayload
  static constexpr Kind kKind{FrameType::kSettings, "settings", Stream::kOrdered,
                              sizeof(SettingsPayload), sizeof(SettingsPayload)};
  uint64_t witness_mark = 0;  // Witness::mark()
  static constexpr auto fields() { return std::tuple(field("witness mark", &SettingsFrame::witness_mark, &H::offset)); }
};

// Numbers that are given when a frame is sent: a request's, which its answer repeats …
inline void set_request(FrameHeader& header, uint64_t number) { header.sequence = number; }
// … and that of a frame on the control stream.
inline void set_order(FrameHeader& header, uint64_t number) {
  header.flags |= kFlagControl;
  header.aux1 = number;
}
inline uint64_t order_of(const FrameHeader& header) { return header.aux1; }
inline bool is_ordered(const FrameHeader& header) { return (header.flags & kFlagControl) != 0; }

// What is answered by ack.
template <typename Frame>
concept Request = requires(Frame frame) {
  frame.request;
  requires Frame::kKind.type != FrameType::kAck && Frame::kKind.type != FrameType::kTimes;
};

// Every frame that there is.
template <typename... Frames>
struct FrameList {};
using AllFrames =
    FrameList<ChallengeFrame, HelloFrame, RefuseFrame, VerdictFrame, JoinFrame, DataFrame,
              FlushFrame, ReadFrame, DigestFrame, AckFrame, TimesFrame, HeartbeatFrame, RoleFrame,
              PromoteAskFrame, PromoteAnswerFrame, GenerationFrame, DirtyFrame, ProgressFrame,
              CompressionFrame, GoodbyeFrame, RetireFrame, RetiredFrame, LinkChangeFrame,
              SettingsFrame, ProbeFrame, ProbeHostFrame, ProbeAskFrame, ProbeAnswerFrame,
              ProbeDataFrame, ProbeReportFrame, GrowFrame, SnapshotFrame>;

}  // namespace twinblock::wire
