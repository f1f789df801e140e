// The page's own files, which are part of the program. The build makes the other half of them.
#pragma once

#include <string_view>
#include <vector>

namespace twinblock {

struct WebFile {
  const char* path;  // "/page.js"
  const char* type;
  std::string_view content;
};
const std::vector<WebFile>& web_files();

}  // namespace twinblock
