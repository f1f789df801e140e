#include "twinblock/text_wrap.h"

#include <sstream>

namespace twinblock {

std::string wrapped(const std::string& text, size_t width, size_t indent) {
  const std::string line_break = "\n" + std::string(indent, ' ');
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!out.empty()) out += line_break;
    std::istringstream words(line);
    size_t column = 0;
    for (std::string word; words >> word;) {
      if (column > 0 && column + 1 + word.size() > width) {
        out += line_break;
        column = 0;
      }
      if (column > 0) out += ' ';
      out += word;
      column += word.size() + (column > 0 ? 1 : 0);
    }
  }
  return out;
}

std::string paragraph(const std::string& text) {
  return text.empty() ? text : wrapped(text, kTextWidth, 0) + "\n";
}

}  // namespace twinblock
