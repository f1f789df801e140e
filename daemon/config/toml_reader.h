// Reads one TOML file key by key and remembers the first thing that is wrong with it, with its
// line, so that the code that knows the keys reads like a list of them. Start-up code only, one
// thread.
#pragma once

#include <toml++/toml.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"

namespace twinblock {

// The first error found; later ones are dropped, because they are often consequences of it. And all warnings, which
// keep no file from being used.
class ConfigErrors {
 public:
  explicit ConfigErrors(std::string path) : path_(std::move(path)) {}
  // "PATH:LINE: what; action".
  void add(int64_t line, const std::string& what, const std::string& action);
  // "PATH:LINE: what; to do: action".
  void warn(int64_t line, const std::string& what, const std::string& action);
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
  [[nodiscard]] bool any() const { return first_.has_value(); }
  [[nodiscard]] const Error& first() const {
    TB_CHECK(first_.has_value(), "first() without an error");
    return *first_;
  }

 private:
  [[nodiscard]] std::string placed(int64_t line, const std::string& words) const;

  std::string path_;
  std::optional<Error> first_;
  std::vector<std::string> warnings_;
};

// One table of the file. Refers to the parsed file and to `errors`, which must outlive it.
class ConfigTable {
 public:
  // `name` as the file writes it, "node.alpha"; empty for the top level.
  ConfigTable(const toml::table& table, std::string name, ConfigErrors& errors)
      : table_(&table), name_(std::move(name)), errors_(&errors) {}

  // Refuses every key that is not in `known`, with the nearest known one as a suggestion. `former` ones, of earlier
  // versions, are neither refused nor suggested.
  void allow_only(const std::vector<std::string>& known, const std::vector<std::string>& former = {}) const;

  // The text at `key`. Missing or not a string: an error (missing: none when `required` is false)
  // and nullopt. `example` is a line that would be right.
  [[nodiscard]] std::optional<std::string> text(const std::string& key, const std::string& example,
                                                bool required) const;
  // The texts at `key`, which is a list of them; empty where it is missing or (an error) is not.
  [[nodiscard]] std::vector<std::string> texts(const std::string& key,
                                               const std::string& example) const;
  // The integer at `key`, or nullopt where it is missing or (an error) not within min..max.
  [[nodiscard]] std::optional<int> integer(const std::string& key, int min, int max) const;
  // The tables within `key` ("node": node.alpha, node.beta), in the order of the file.
  [[nodiscard]] std::vector<ConfigTable> children(const std::string& key) const;
  // The table at `key`; nullopt where it is missing.
  [[nodiscard]] std::optional<ConfigTable> child(const std::string& key) const;

  [[nodiscard]] bool has(const std::string& key) const { return table_->contains(key); }
  void fail(const std::string& key, const std::string& what, const std::string& action) const;
  void warn(const std::string& key, const std::string& what, const std::string& action) const;
  // The line of `key`, or of the table's header where the key is missing.
  [[nodiscard]] int64_t line(const std::string& key = {}) const;
  // "node.alpha" -> "alpha".
  [[nodiscard]] std::string last_name() const;
  // "[node.alpha]", or "the top level".
  [[nodiscard]] std::string where() const;
  [[nodiscard]] ConfigErrors& errors() const { return *errors_; }

 private:
  const toml::table* table_;
  std::string name_;
  ConfigErrors* errors_;
};

// The element of `known` that `word` is most probably a slip of; nullopt when none is near.
std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace twinblock
