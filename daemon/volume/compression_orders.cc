#include "volume/compression_orders.h"

#include <algorithm>
#include <cerrno>

#include "base/limits.h"

namespace twinblock {

void CompressionOrders::order(Compression mode, std::optional<int> level, const Reply& reply) {
  const int as_it_was = core_.compression().setting().level;
  const CompressionPolicy::Setting setting{mode, level.value_or(as_it_was)};
  if (setting.level < limits::kCompressionLevelMin ||
      setting.level > limits::kCompressionLevelMax) {
    reply(Error{"there is no level " + std::to_string(setting.level),
                "choose from " + std::to_string(limits::kCompressionLevelMin) + " to " +
                    std::to_string(limits::kCompressionLevelMax),
                EINVAL});
    return;
  }
  ++number_;
  given_here_ = true;
  apply(setting, "as ordered here");
  const bool connected = core_.session.up();
  if (connected) tell();
  reply(std::string("compression is ") + compression_name(mode) + ", level " +
        std::to_string(setting.level) +
        (connected ? ", here; " + core_.peer + " is told" : "; " + core_.peer + " is told when it is back"));
}

void CompressionOrders::heard(const wire::CompressionFrame& order) {
  const uint64_t number = order.number;
  const CompressionPolicy::Setting setting{static_cast<Compression>(order.mode), order.level};
  const bool is_older = peer_numbers_.told_is_older(given_here_, setting != core_.compression().setting());
  if (!is_older && !told_order_counts(number, number_, core_.node, core_.peer)) return;
  if (order_number_leaps(number, number_)) {
    core_.peer_told(core_.peer + " told an order about compression with number " + std::to_string(number) +
                        ", after number " + std::to_string(number_) + ":",
                    "it is not heeded", Severity::kWarning);
    return;
  }
  if (is_older) {
    held_against_ = std::max(held_against_, number);
    return;
  }
  number_ = number;
  given_here_ = false;
  apply(setting, "as ordered at " + core_.peer);
}

// Where the other process was new as well, both do this, and the numbers are the same.
void CompressionOrders::peer_told_all() {
  if (!peer_numbers_.all_told() || held_against_ == 0) return;
  number_ = std::max(number_, held_against_) + 1;
  tell();
}

void CompressionOrders::session_up() {
  if (number_ > 0) tell();
}

void CompressionOrders::apply(CompressionPolicy::Setting setting, const std::string& by) {
  if (setting == core_.compression().setting()) return;
  core_.compression().set(setting);
  core_.events().tell("compression-order", {{"mode", compression_name(setting.mode)},
                                          {"level", static_cast<uint64_t>(setting.level)},
                                          {"by", given_here_ ? core_.node : core_.peer}});
  const std::string is = std::string("compression: ") + compression_name(setting.mode) + ", level " +
                         std::to_string(setting.level) + ",";
  if (given_here_)
    core_.log.log(Severity::kInfo, is + " " + by);
  else
    core_.peer_told(is, by, Severity::kInfo);
}

void CompressionOrders::tell() {
  const CompressionPolicy::Setting setting = core_.compression().setting();
  core_.session.send_ordered(wire::CompressionFrame{static_cast<uint8_t>(setting.mode),
                                                     static_cast<uint8_t>(setting.level), number_});
}

}  // namespace twinblock
