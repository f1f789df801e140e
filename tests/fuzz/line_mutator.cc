#include "line_mutator.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "input.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace twinblock::fuzz {
namespace {

std::vector<std::string> lines_of(const uint8_t* data, size_t size) {
  std::vector<std::string> lines(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n')
      lines.emplace_back();
    else
      lines.back() += static_cast<char>(data[i]);
  }
  return lines;
}

void insert(std::vector<std::string>& lines, uint64_t at, std::string line) {
  lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(at), std::move(line));
}

void mutate(std::vector<std::string>& lines, Noise& noise, std::span<const char* const> known) {
  const uint64_t at = noise.below(lines.size());
  switch (noise.below(6)) {
    case 0:
    case 1:
      insert(lines, noise.below(lines.size() + 1), known[noise.below(known.size())]);
      break;
    case 2:
      lines[at] = known[noise.below(known.size())];
      break;
    case 3:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(at));
      break;
    case 4:
      insert(lines, noise.below(lines.size() + 1), std::string(lines[at]));
      break;
    default:
      std::swap(lines[at], lines[noise.below(lines.size())]);
      break;
  }
}

}  // namespace

size_t mutate_lines(uint8_t* data, size_t size, size_t max_size, unsigned int seed,
                    std::span<const char* const> known) {
  Noise noise(seed);
  if (noise.below(2) == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> lines = lines_of(data, size);
  for (uint64_t left = 1 + noise.below(4); left > 0 && !lines.empty(); --left)
    mutate(lines, noise, known);
  std::string text;
  for (const std::string& line : lines) text += (&line == lines.data() ? "" : "\n") + line;
  const size_t length = std::min(text.size(), max_size);
  std::memcpy(data, text.data(), length);
  return length;
}

}  // namespace twinblock::fuzz
