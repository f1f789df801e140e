#include "volume/settings.h"

#include <algorithm>
#include <vector>

#include "base/units.h"

namespace twinblock {
namespace {

using Link = wire::SettingsPayload::Link;

class SettingsFound {
 public:
  void add(const std::string& what, const std::string& here, const std::string& there) {
    if (here != there) add(what + " (" + here + " here, " + there + " there)");
  }
  void add(const std::string& what) { text_ += (text_.empty() ? "" : ", ") + what; }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string rate(uint64_t bits_per_s) {
  return bits_per_s == 0 ? "none" : std::to_string(bits_per_s) + " bit/s";
}

std::string loss(uint8_t value) { return value == 0 ? "continue" : "freeze"; }

std::string witness(uint8_t kind) {
  return kind <= wire::kWitnessKindMax ? witness_kind_name(static_cast<WitnessKind>(kind)) : "unknown";
}

std::string compression(uint8_t mode, uint8_t level) {
  const std::string name =
      mode <= static_cast<uint8_t>(Compression::kAuto)
          ? compression_name(static_cast<Compression>(mode))
          : "unknown";
  return name == "off" ? name : name + ", level " + std::to_string(level);
}

void compare_links(const wire::SettingsPayload& theirs, const wire::SettingsPayload& ours,
                   const Config& config, SettingsFound& found) {
  const auto find = [](const wire::SettingsPayload& in, const std::string& name) -> const Link* {
    const size_t count = std::min<size_t>(in.links, std::size(in.link));
    for (size_t i = 0; i < count; ++i)
      if (wire::get_name(in.link[i].name) == name) return &in.link[i];
    return nullptr;
  };
  for (size_t i = 0; i < ours.links; ++i) {
    const Link& here = ours.link[i];
    const std::string name = wire::get_name(here.name);
    const Link* there = find(theirs, name);
    if (there == nullptr) {
      found.add("link " + name + " (only here)");
      continue;
    }
    for (size_t node = 0; node < config.nodes.size(); ++node)
      found.add(config.nodes[node].name + "'s address of link " + name,
                wire::get_name(here.address[node]), wire::get_name(there->address[node]));
    found.add("the rate of link " + name, rate(here.rate_bits_per_s),
              rate(there->rate_bits_per_s));
  }
  for (size_t i = 0; i < std::min<size_t>(theirs.links, std::size(theirs.link)); ++i) {
    const std::string name = wire::get_name(theirs.link[i].name);
    if (find(ours, name) == nullptr) found.add("link " + name + " (only there)");
  }
}

}  // namespace

wire::SettingsPayload make_settings(const Config& config) {
  wire::SettingsPayload payload{};
  payload.peer_timeout_ns = config.peer_timeout_ns;
  payload.link_timeout_ns = config.link_timeout_ns;
  payload.disk_timeout_ns = config.disk_timeout_ns;
  payload.on_peer_loss = config.on_peer_loss == OnPeerLoss::kFreeze ? 1 : 0;
  payload.compression = static_cast<uint8_t>(config.compression);
  payload.level = static_cast<uint8_t>(config.compression_level);
  payload.witness = static_cast<uint8_t>(config.witness.kind);
  payload.links = static_cast<uint8_t>(std::min(config.links.size(), std::size(payload.link)));
  for (size_t i = 0; i < payload.links; ++i) {
    const LinkConfig& link = config.links[i];
    wire::set_name(payload.link[i].name, link.name);
    payload.link[i].rate_bits_per_s = link.rate_bits_per_s;
    for (size_t node = 0; node < config.nodes.size(); ++node)
      wire::set_name(payload.link[i].address[node], link.address.at(config.nodes[node].name));
  }
  return payload;
}

std::string compare_settings(const wire::SettingsPayload& theirs, const Config& config) {
  const wire::SettingsPayload ours = make_settings(config);
  SettingsFound found;
  found.add("peer_timeout", format_duration(ours.peer_timeout_ns),
            format_duration(theirs.peer_timeout_ns));
  found.add("link_timeout", format_duration(ours.link_timeout_ns),
            format_duration(theirs.link_timeout_ns));
  found.add("disk_timeout", format_duration(ours.disk_timeout_ns),
            format_duration(theirs.disk_timeout_ns));
  found.add("on_peer_loss", loss(ours.on_peer_loss), loss(theirs.on_peer_loss));
  found.add("witness", witness(ours.witness), witness(theirs.witness));
  found.add("compression", compression(ours.compression, ours.level),
            compression(theirs.compression, theirs.level));
  compare_links(theirs, ours, config, found);
  return found.text();
}

}  // namespace twinblock
