// The least that a volume's file says, for tests of one of its tables.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "config/config.h"

namespace twinblock {

// `below` begins at line 12.
inline std::string minimal_file(const std::string& below) {
  return R"(volume = "r0"
size = "1GiB"
[node.alpha]
backing = "/a/r0.img"
metadata = "/a/r0.meta"
[node.beta]
backing = "/b/r0.img"
metadata = "/b/r0.meta"
[link.main]
alpha = "10.0.0.1:7700"
beta = "10.0.0.2:7700"
)" + below;
}

// The error names the line of the file, and has every one of `parts`.
inline void expect_refused_at(const std::string& file, int line, const std::vector<std::string>& parts) {
  const Result<Config> config = parse_config(file, "r0.toml");
  ASSERT_FALSE(config.ok()) << file;
  const std::string& error = config.error().what;
  EXPECT_TRUE(error.starts_with("r0.toml:" + std::to_string(line) + ": ")) << error;
  for (const std::string& part : parts) EXPECT_NE(error.find(part), std::string::npos) << error;
}

}  // namespace twinblock
