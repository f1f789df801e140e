// Members of a JSON object that may be missing or of another type, and its text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace twinblock {

inline nlohmann::json object_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_object()) return {};
  return object[key];
}

inline nlohmann::json array_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_array())
    return nlohmann::json::array();
  return object[key];
}

inline std::string text_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_string()) return {};
  return object[key].get<std::string>();
}

// Zero where it is missing; negative numbers too, since nothing that is counted here is negative.
inline uint64_t count_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return 0;
  const double value = object[key].get<double>();
  if (object[key].is_number_unsigned()) return object[key].get<uint64_t>();
  return value > 0 ? static_cast<uint64_t>(value) : 0;
}

inline std::string count_text(const nlohmann::json& object, const char* key) {
  return std::to_string(count_at(object, key));
}

inline double number_at(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return 0;
  return object[key].get<double>();
}

// A time that is given in units of so many ns; zero as above.
inline uint64_t time_at_ns(const nlohmann::json& object, const char* key, double unit_ns) {
  return static_cast<uint64_t>(std::max(0.0, number_at(object, key)) * unit_ns);
}

inline bool flag_at(const nlohmann::json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_boolean() &&
         object[key].get<bool>();
}

// Of what --json prints: a key that is new needs no new number, one that goes or means another thing does.
constexpr int kJsonVersion = 1;

inline nlohmann::json versioned(nlohmann::json object) {
  if (object.is_object()) object["version"] = kJsonVersion;
  return object;
}

// As text: on one line, or with `indent` spaces a level. What came from a node need not be UTF-8.
inline std::string json_text(const nlohmann::json& value, int indent = -1) {
  return value.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace twinblock
