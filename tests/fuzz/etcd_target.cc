// Answers of an etcd that may be anybody, and what stands at its key: what passes is within every bound and
// means the same when it is written down anew; what is refused, and what is quoted, is one printable line.
//
// Input: a byte that says what the rest is (an answer to a question for the key, one to a replacement, a
// token, a fault, or the value itself), then that.
#include <algorithm>

#include "input.h"
#include "io/posix/etcd_messages.h"

namespace twinblock::fuzz {
namespace {

const std::string kUuid = "6f9619ff-8b86-d011-b42d-00cf4fc964ff";
const std::string kKey = etcd::key_of("r0", kUuid);

template <typename T>
void check_error(const Result<T>& result) {
  if (result.ok()) return;
  require(printable_line(result.error().what), "an error that is no line", result.error().what);
  require(result.error().what.size() < 1000, "an error without an end", result.error().what);
}

void check_value(const std::string& text) {
  const Result<etcd::Marked> marked = etcd::parse_entry(text, kUuid);
  check_error(marked);
  if (!marked) return;
  const WitnessEntry& entry = marked.value().entry;
  require(entry.volume_uuid == kUuid, "an entry of another volume passed");
  require(entry.generation != 0, "an entry without a generation passed");
  require(entry.holder.size() <= 63 && (entry.holder.empty() || printable_line(entry.holder)),
          "a holder that is no name", entry.holder);
  const Result<etcd::Marked> again = etcd::parse_entry(etcd::entry_text(marked.value()), kUuid);
  require(again.ok() && again.value().entry == entry && again.value().mark == marked.value().mark,
          "written down anew, an entry means something else", text);
}

void check_range(const std::string& text) {
  const Result<etcd::ReadAnswer> answer = etcd::parse_read_answer(text, kKey);
  check_error(answer);
  if (!answer) return;
  require(answer.value().value.has_value() == (answer.value().revision > 0) && answer.value().revision >= 0,
          "a value without its revision, or the other way round", text);
  if (answer.value().value) check_value(*answer.value().value);
}

void check_token(const std::string& text) {
  const Result<std::string> token = etcd::parse_token(text);
  check_error(token);
  require(!token.ok() || (!token.value().empty() && printable_line(token.value())), "a token that is no line", text);
}

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock;
  using namespace twinblock::fuzz;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      check_range(text);
      break;
    case 1:
      check_error(etcd::parse_replace_answer(text));
      break;
    case 2:
      check_token(text);
      break;
    case 3:
      require(printable_line(etcd::parse_fault(500, text).text), "a fault that is no line", text);
      break;
    default:
      check_value(text);
  }
  return 0;
}
