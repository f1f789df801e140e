#include "telemetry/metrics_text.h"

#include <array>
#include <cstdio>

namespace twinblock {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

std::string escaped(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

// The bounds never change: each is rendered once.
const std::string& bound_text(size_t index) {
  static const std::array<std::string, kMetricBounds_ns.size()> texts = [] {
    std::array<std::string, kMetricBounds_ns.size()> all;
    for (size_t i = 0; i < all.size(); ++i)
      all[i] = number(static_cast<double>(kMetricBounds_ns[i]) / 1e9);
    return all;
  }();
  return texts[index];
}

}  // namespace

std::string MetricsText::rendered(const Labels& labels) {
  std::string out;
  for (const auto& [name, value] : labels)
    out += (out.empty() ? "" : ",") + std::string(name) + "=\"" + escaped(value) + "\"";
  return out;
}

std::string MetricsText::all_of(const Labels& labels) const {
  if (labels.empty()) return common_;
  return common_.empty() ? rendered(labels) : common_ + "," + rendered(labels);
}

void MetricsText::family(const char* name, const char* type, const char* help) {
  name_ = name;
  text_ += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
}

void MetricsText::line(const char* suffix, const std::string& labels, const std::string& value) {
  text_.append(name_).append(suffix);
  if (!labels.empty()) text_.append("{").append(labels).append("}");
  text_.append(" ").append(value).append("\n");
}

void MetricsText::sample(double value, const Labels& labels) {
  line("", all_of(labels), number(value));
}

void MetricsText::sample(uint64_t value, const Labels& labels) {
  line("", all_of(labels), std::to_string(value));
}

void MetricsText::histogram(const Distribution& times, const Labels& labels) {
  const std::string all = all_of(labels);
  for (size_t i = 0; i < times.up_to.size(); ++i)
    line("_bucket", all + ",le=\"" + bound_text(i) + "\"", std::to_string(times.up_to[i]));
  line("_bucket", all + ",le=\"+Inf\"", std::to_string(times.count));
  line("_sum", all, number(static_cast<double>(times.sum_ns) / 1e9));
  line("_count", all, std::to_string(times.count));
}

}  // namespace twinblock
