// The simulation's only source of chance: everything random follows from the seed.
#pragma once

#include <cmath>
#include <cstdint>

namespace twinblock::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) { next(); }

  uint64_t next() {  // splitmix64
    uint64_t z = (state_ += 0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
  }
  // A stream of its own, so that what one part draws does not shift what another sees.
  Random fork() { return Random(next()); }
  uint64_t below(uint64_t end) { return next() % end; }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  bool chance(double probability) { return unit() < probability; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Log-uniform: small values as likely as large ones, as delays are.
  uint64_t spread(uint64_t low, uint64_t high) {
    const double factor = static_cast<double>(high) / static_cast<double>(low);
    return static_cast<uint64_t>(static_cast<double>(low) * std::pow(factor, unit()));
  }

 private:
  uint64_t state_;
};

}  // namespace twinblock::sim
