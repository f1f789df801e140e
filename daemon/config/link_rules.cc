#include "config/link_rules.h"

#include <algorithm>

#include "base/units.h"
#include "config/address.h"
#include "config/config.h"

namespace twinblock {
namespace {

constexpr size_t kNameMax = 63;
constexpr uint64_t kRateMin_bits_per_s = 1000;
constexpr uint64_t kRateMax_bits_per_s = 10'000'000'000'000;

std::string example(const std::vector<std::string>& nodes) {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i)
    text +=
        (i == 0 ? "" : " and ") + nodes[i] + "'s, like 10.0.0." + std::to_string(i + 1) + ":7700";
  return "give both ends: " + text;
}

Status read_addresses(const std::map<std::string, std::string>& addresses,
                      const std::vector<std::string>& nodes, LinkConfig& link) {
  for (const auto& [node, text] : addresses)
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end())
      return Error{"there is no node '" + node + "'", example(nodes)};
  std::vector<Address> ends;
  for (const std::string& node : nodes) {
    const auto given = addresses.find(node);
    if (given == addresses.end())
      return Error{"link '" + link.name + "' has no address for " + node, example(nodes)};
    const Result<Address> address = parse_address(given->second);
    if (!address) return address.error();
    link.address[node] = address.value().text();
    ends.push_back(address.value());
  }
  for (const Address& end : ends) {
    if (end.v6 != ends[0].v6)
      return Error{"link '" + link.name + "' has an IPv4 and an IPv6 address",
                   "use the same kind at both ends"};
    if (&end != &ends[0] && end.text() == ends[0].text())
      return Error{"link '" + link.name + "' has the address " + end.text() + " at both ends",
                   "give each node its own address or port"};
  }
  return ok_status();
}

}  // namespace

Status check_name(const std::string& what, const std::string& name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  const bool good = !name.empty() && name.size() <= kNameMax && plain(name[0]) &&
                    std::all_of(name.begin(), name.end(), [&](char c) {
                      return plain(c) || c == '_' || c == '.' || c == '-';
                    });
  if (good) return ok_status();
  return Error{"'" + name + "' can't be the name of a " + what,
               "use a letter or digit, then letters, digits, '_', '.' and '-', 63 in all at most"};
}

bool is_link_rate(uint64_t rate_bits_per_s) {
  return rate_bits_per_s >= kRateMin_bits_per_s && rate_bits_per_s <= kRateMax_bits_per_s;
}

Result<uint64_t> parse_link_rate(const std::string& text) {
  const uint64_t rate_bits_per_s = parse_rate_bits_per_s(text).value_or(0);
  if (!is_link_rate(rate_bits_per_s))
    return Error{"'" + text + "' is not a rate that a link can have",
                 "write it like \"10Gbit\" or \"100Mbit\""};
  return rate_bits_per_s;
}

Result<LinkConfig> make_link(const std::string& name,
                             const std::map<std::string, std::string>& addresses,
                             const std::string& rate, const std::vector<std::string>& nodes) {
  LinkConfig link;
  link.name = name;
  if (const Status good = check_name("link", name); !good) return good.error();
  if (!addresses.empty())
    if (const Status good = read_addresses(addresses, nodes, link); !good) return good.error();
  if (!rate.empty()) {
    const Result<uint64_t> parsed = parse_link_rate(rate);
    if (!parsed) return parsed.error();
    link.rate_bits_per_s = parsed.value();
  }
  return link;
}

}  // namespace twinblock
