#include "twinblock/nbd_handshake.h"

#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

constexpr uint64_t kGreeting = 0x4e42444d41474943;     // "NBDMAGIC"
constexpr uint64_t kOptionMagic = 0x49484156454f5054;  // "IHAVEOPT"
constexpr uint64_t kReplyMagic = 0x0003e889045565a9;
constexpr uint16_t kFixedNewstyle = 1;
constexpr uint16_t kNoZeroes = 2;
constexpr uint32_t kOptionGo = 7;
constexpr uint32_t kReplyAck = 1;
constexpr uint32_t kReplyInfo = 3;
constexpr uint32_t kReplyIsError = 0x80000000;
constexpr uint16_t kInfoExport = 0;
constexpr size_t kGreetingBytes = 18;
constexpr size_t kReplyHeaderBytes = 20;
// A few sentences; anything longer is no answer to our question.
constexpr size_t kReplyBytesMax = 64 * 1024;

// Big endian, as all of NBD is.
template <typename T>
T big_endian_at(std::string_view bytes, size_t at) {
  uint64_t value = 0;
  for (size_t i = 0; i < sizeof(T); ++i)
    value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return static_cast<T>(value);
}

template <typename T>
void append(std::string& out, T value) {
  for (size_t i = sizeof(T); i-- > 0;)
    out.push_back(static_cast<char>(static_cast<uint64_t>(value) >> (8 * i)));
}

Error not_nbd(const std::string& why) { return refused("what answers is no NBD server: " + why); }

// The server's own words, made fit for a terminal.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) out.push_back(c >= ' ' && c <= '~' ? c : '?');
  return out;
}

}  // namespace

Result<std::string> NbdHandshake::answer_greeting() {
  const std::string_view bytes = received_;
  if (big_endian_at<uint64_t>(bytes, 0) != kGreeting || big_endian_at<uint64_t>(bytes, 8) != kOptionMagic)
    return not_nbd("it does not greet like one");
  const auto offered = big_endian_at<uint16_t>(bytes, 16);
  if ((offered & kFixedNewstyle) == 0) return not_nbd("its protocol is too old");
  received_.erase(0, kGreetingBytes);
  greeted_ = true;
  std::string out;
  append<uint32_t>(out, offered & (kFixedNewstyle | kNoZeroes));
  append(out, kOptionMagic);
  append(out, kOptionGo);
  append(out, static_cast<uint32_t>(sizeof(uint32_t) + export_name_.size() + sizeof(uint16_t)));
  append(out, static_cast<uint32_t>(export_name_.size()));
  out += export_name_;
  append<uint16_t>(out, 0);  // no more than what every server tells of an export
  return out;
}

Status NbdHandshake::take_reply(uint32_t type, std::string_view payload) {
  if ((type & kReplyIsError) != 0)
    return refused("the node refuses its export" +
                   (payload.empty() ? std::string() : ": " + printable(payload)));
  if (type == kReplyAck) {
    if (!described_) return not_nbd("it does not say how large the export is");
    done_ = true;
    return ok_status();
  }
  if (type != kReplyInfo || payload.size() < sizeof(uint16_t)) return not_nbd("an odd reply");
  if (big_endian_at<uint16_t>(payload, 0) != kInfoExport) return ok_status();
  if (payload.size() != 12) return not_nbd("an odd description of the export");
  export_ = {big_endian_at<uint64_t>(payload, 2), big_endian_at<uint16_t>(payload, 10)};
  described_ = true;
  return ok_status();
}

Result<std::string> NbdHandshake::take(std::string_view bytes) {
  received_.append(bytes);
  std::string out;
  if (!greeted_) {
    if (received_.size() < kGreetingBytes) return out;
    Result<std::string> answer = answer_greeting();
    if (!answer) return answer;
    out = answer.value();
  }
  while (!done_ && received_.size() >= kReplyHeaderBytes) {
    const std::string_view reply = received_;
    if (big_endian_at<uint64_t>(reply, 0) != kReplyMagic || big_endian_at<uint32_t>(reply, 8) != kOptionGo)
      return not_nbd("it answers what it was not asked");
    const auto length = big_endian_at<uint32_t>(reply, 16);
    if (length > kReplyBytesMax) return not_nbd("its reply is too long");
    if (reply.size() < kReplyHeaderBytes + length) return out;
    if (const Status taken =
            take_reply(big_endian_at<uint32_t>(reply, 12), reply.substr(kReplyHeaderBytes, length));
        !taken)
      return taken.error();
    received_.erase(0, kReplyHeaderBytes + length);
  }
  // The server speaks again only when it is asked.
  if (done_ && !received_.empty()) return not_nbd("it says more than it was asked");
  return out;
}

}  // namespace twinblock
