#include "twinblock/latency_bar.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "twinblock/json_fields.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

using nlohmann::json;

struct Part {
  char letter;
  const char* ground;  // of an ANSI colour sequence: letters and ground
  const char* name;
  std::vector<const char*> stages;
};

const std::vector<Part>& parts() {
  static const std::vector<Part> table{
      {'W', "97;44", "wire", {"wire"}},
      {'F', "30;44", "queue for the full link", {"link-queue"}},
      {'S', "30;46", "stack", {"stack"}},
      {'P', "30;43", "peer queue", {"peer-queue"}},
      {'D', "30;42", "peer disk", {"peer-disk"}},
      {'L', "97;45", "local disk", {"local-disk"}},
      {'I', "97;41", "intent", {"intent"}},
      {'Q',
       "30;47",
       "queue: prepare, queue, send and completion",
       {"prepare", "queue", "send", "completion"}},
      {'C', "97;100", "compression", {"compression"}},
      {'E', "97;42", "encryption", {"crypto"}},
  };
  return table;
}

std::string painted(const Part& part, const std::string& text, bool colour) {
  return colour && !text.empty() ? "\033[" + std::string(part.ground) + "m" + text + "\033[0m"
                                 : text;
}

double part_ns(const json& stages, const Part& part) {
  double sum = 0;
  for (const char* stage : part.stages)
    sum += static_cast<double>(count_at(object_at(stages, stage), "sum_ns"));
  return sum;
}

}  // namespace

std::string latency_bar(const json& write_class, size_t width, bool colour) {
  const json stages = object_at(write_class, "stages");
  std::vector<double> sums(parts().size());
  double total = 0;
  for (size_t i = 0; i < sums.size(); ++i) total += sums[i] = part_ns(stages, parts()[i]);
  if (total <= 0) return {};
  // Ends are rounded and not lengths, so that the bar is as long as it should be.
  std::string bar;
  double before = 0;
  size_t drawn = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    before += sums[i];
    const auto end = std::min(
        width, static_cast<size_t>(std::lround(before / total * static_cast<double>(width))));
    bar += painted(parts()[i], std::string(end - drawn, parts()[i].letter), colour);
    drawn = end;
  }
  return bar;
}

std::string latency_legend(bool colour) {
  constexpr size_t kWidth = 80;
  std::string out;
  std::string line;
  size_t columns = 0;
  for (const Part& part : parts()) {
    const std::string text = std::string(" ") + part.name;
    if (columns > 0 && columns + 3 + text.size() > kWidth) {
      out += line + "\n";
      line.clear();
      columns = 0;
    }
    line += "  " + painted(part, std::string(1, part.letter), colour) + text;
    columns += 3 + text.size();
  }
  return out + line + "\n";
}

}  // namespace twinblock
