#include "config/toml_reader.h"

#include <algorithm>

namespace twinblock {
namespace {

// Levenshtein's distance: how many letters to insert, delete or replace.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replace, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::optional<std::string> nearest(const std::string& word, const std::vector<std::string>& known) {
  std::optional<std::string> best;
  // Two letters may be swapped in a short word; a third of a long one may be wrong.
  size_t best_distance = std::max(word.size() / 3, std::min<size_t>(word.size() / 2, 2)) + 1;
  for (const std::string& candidate : known) {
    const size_t distance = edit_distance(word, candidate);
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

void ConfigErrors::add(int64_t line, const std::string& what, const std::string& action) {
  if (first_) return;
  first_ = Error{placed(line, action.empty() ? what : what + "; " + action), ""};
}

void ConfigErrors::warn(int64_t line, const std::string& what, const std::string& action) {
  warnings_.push_back(placed(line, what + "; to do: " + action));
}

std::string ConfigErrors::placed(int64_t line, const std::string& words) const {
  std::string text = path_ + ":" + std::to_string(line) + ": " + words;
  // Names and values are quoted from the file, which may hold anything.
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, '?');
  return text;
}

void ConfigTable::allow_only(const std::vector<std::string>& known, const std::vector<std::string>& former) const {
  const auto has = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  std::vector<std::pair<int64_t, std::string>> unknown;
  for (auto&& [key, value] : *table_) {
    const std::string name{key.str()};
    if (!has(known, name) && !has(former, name))
      unknown.emplace_back(line(name), name);
  }
  if (unknown.empty()) return;
  const auto& [first_line, first] = *std::min_element(unknown.begin(), unknown.end());
  const std::optional<std::string> meant = nearest(first, known);
  const bool is_table = (*table_)[first].is_table();
  errors_->add(
      first_line,
      std::string("unknown ") + (is_table ? "table" : "key") + " '" + first + "' in " + where(),
      meant ? "did you mean '" + *meant + "'?" : "known here: " + joined(known));
}

std::optional<std::string> ConfigTable::text(const std::string& key, const std::string& example,
                                             bool required) const {
  const toml::node* node = table_->get(key);
  if (node == nullptr) {
    if (required) fail(key, "'" + key + "' is missing in " + where(), "add " + example);
    return std::nullopt;
  }
  auto value = node->value_exact<std::string>();
  if (!value) fail(key, "'" + key + "' is not a text in quotes", "write " + example);
  return value;
}

std::vector<std::string> ConfigTable::texts(const std::string& key,
                                            const std::string& example) const {
  const toml::node* node = table_->get(key);
  if (node == nullptr) return {};
  std::vector<std::string> found;
  if (const toml::array* list = node->as_array()) {
    for (const toml::node& each : *list)
      if (auto value = each.value_exact<std::string>()) found.push_back(*value);
    if (found.size() == list->size()) return found;
  }
  fail(key, "'" + key + "' is not a list of texts in quotes", "write " + example);
  return {};
}

std::optional<int> ConfigTable::integer(const std::string& key, int min, int max) const {
  const toml::node* node = table_->get(key);
  if (node == nullptr) return std::nullopt;
  const auto value = node->value_exact<int64_t>();
  if (value && *value >= min && *value <= max) return static_cast<int>(*value);
  fail(key,
       "'" + key + "' is not a whole number from " + std::to_string(min) + " to " +
           std::to_string(max),
       "write " + key + " = " + std::to_string(min));
  return std::nullopt;
}

std::vector<ConfigTable> ConfigTable::children(const std::string& key) const {
  std::vector<ConfigTable> found;
  const toml::node* node = table_->get(key);
  if (node == nullptr) return found;
  if (!node->is_table()) {
    fail(key, "'" + key + "' is not a table", "write [" + key + ".NAME] and its keys below");
    return found;
  }
  for (auto&& [child_key, value] : *node->as_table()) {
    const std::string name = key + "." + std::string(child_key.str());
    if (const toml::table* table = value.as_table()) {
      found.emplace_back(*table, name, *errors_);
      continue;
    }
    errors_->add(static_cast<int64_t>(child_key.source().begin.line),
                 "'" + std::string(child_key.str()) + "' in [" + key + "] is not a table",
                 "write [" + name + "] and its keys below, or remove it");
  }
  std::sort(found.begin(), found.end(),
            [](const ConfigTable& a, const ConfigTable& b) { return a.line() < b.line(); });
  return found;
}

std::optional<ConfigTable> ConfigTable::child(const std::string& key) const {
  const toml::node* node = table_->get(key);
  if (node == nullptr) return std::nullopt;
  if (const toml::table* table = node->as_table()) return ConfigTable(*table, key, *errors_);
  fail(key, "'" + key + "' is not a table", "write [" + key + "] and its keys below");
  return std::nullopt;
}

void ConfigTable::fail(const std::string& key, const std::string& what,
                       const std::string& action) const {
  errors_->add(line(key), what, action);
}

void ConfigTable::warn(const std::string& key, const std::string& what, const std::string& action) const {
  errors_->warn(line(key), what, action);
}

int64_t ConfigTable::line(const std::string& key) const {
  const auto found = key.empty() ? table_->end() : table_->find(key);
  const auto line =
      found == table_->end() ? table_->source().begin.line : found->first.source().begin.line;
  return std::max<int64_t>(line, 1);
}

std::string ConfigTable::last_name() const { return name_.substr(name_.find('.') + 1); }

std::string ConfigTable::where() const {
  return name_.empty() ? "the top level of the file" : "[" + name_ + "]";
}

}  // namespace twinblock
