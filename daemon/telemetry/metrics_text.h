// Writes the text format of Prometheus: families, samples, histograms. Pure.
// https://github.com/prometheus/docs/blob/main/docs/instrumenting/exposition_formats.md
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "telemetry/latency.h"

namespace twinblock {

class MetricsText {
 public:
  using Labels = std::vector<std::pair<const char*, std::string>>;

  // `common` go first in every sample.
  explicit MetricsText(const Labels& common) : common_(rendered(common)) {}

  // Begins a family; its samples follow. `type`: "counter", "gauge" or "histogram".
  void family(const char* name, const char* type, const char* help);
  void sample(double value, const Labels& labels = {});
  void sample(uint64_t value, const Labels& labels = {});
  // A family of one sample.
  template <typename Number>
  void counter(const char* name, const char* help, Number value) {
    family(name, "counter", help);
    sample(value);
  }
  template <typename Number>
  void gauge(const char* name, const char* help, Number value, const Labels& labels = {}) {
    family(name, "gauge", help);
    sample(value, labels);
  }
  // In seconds: cumulative buckets, sum and count.
  void histogram(const Distribution& times, const Labels& labels);

  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  static std::string rendered(const Labels& labels);
  void line(const char* suffix, const std::string& labels, const std::string& value);
  [[nodiscard]] std::string all_of(const Labels& labels) const;

  const std::string common_;
  const char* name_ = "";
  std::string text_;
};

}  // namespace twinblock
