// Breaks long text into lines at spaces. Pure.
#pragma once

#include <string>

namespace twinblock {

// `text` in lines of at most `width` characters (a longer word gets a line of its own), those after
// the first indented by `indent` spaces. Keeps the newlines that are there; none at the end.
std::string wrapped(const std::string& text, size_t width, size_t indent);

// What the answers of nodes are wrapped at.
constexpr size_t kTextWidth = 88;

// `text` in lines of kTextWidth with a newline at the end; nothing where there is no text.
std::string paragraph(const std::string& text);

}  // namespace twinblock
