#include "twinblock/did_you_mean.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

namespace twinblock {
namespace {

// Longer ones are no slip of a word.
constexpr size_t kLengthMax = 32;

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// How many letters have to be put in, left out, replaced, or swapped with their neighbours.
size_t slips_between(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> slips(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) slips[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) slips[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = slips[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      slips[i][j] = std::min({slips[i - 1][j] + 1, slips[i][j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        slips[i][j] = std::min(slips[i][j], slips[i - 2][j - 2] + 1);
    }
  return slips[a.size()][b.size()];
}

}  // namespace

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& words) {
  if (typed.size() > kLengthMax) return {};
  const std::string meant = lower(typed);
  const std::string* nearest = nullptr;
  size_t least = 0;
  for (const std::string& word : words) {
    const size_t slips = slips_between(meant, lower(word));
    // One slip in three letters: with more, any short word would be near.
    if (slips * 3 > word.size() || (nearest != nullptr && slips >= least)) continue;
    nearest = &word;
    least = slips;
  }
  return nearest == nullptr ? "" : "did you mean '" + *nearest + "'? ";
}

}  // namespace twinblock
