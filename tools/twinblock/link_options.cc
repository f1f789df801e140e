// The words of `link`, `compression` and `key`.
#include <algorithm>
#include <array>

#include "config/address.h"
#include "config/config.h"
#include "config/link_rules.h"
#include "twinblock/options.h"

namespace twinblock {
namespace {

constexpr const char* kLinkUsage =
    "write: twinblock link list VOLUME, … add VOLUME NAME NODE=IP:PORT NODE=IP:PORT, or "
    "… remove (enable, disable) VOLUME NAME";

bool is_action(const std::string& word) {
  return word == "list" || word == "add" || word == "remove" || word == "enable" ||
         word == "disable";
}

Status usage_error(const Error& error) { return wrong_usage("link: " + error.what, error.action); }

// "alpha=10.0.0.1:7700"
Status read_address(const std::string& word, Options& options) {
  const size_t equals = word.find('=');
  const std::string node = word.substr(0, equals);
  const Result<Address> address = parse_address(word.substr(equals + 1));
  if (!address) return usage_error(address.error());
  if (!options.link.addresses.emplace(node, address.value().text()).second)
    return wrong_usage("link: two addresses for node '" + node + "'", kLinkUsage);
  return ok_status();
}

// Which of the words that are no addresses name the volume and the links. A volume that is left out
// can't be told from a link's name but by their number.
Status read_names(std::vector<std::string> words, Options& options) {
  const bool list = options.link.action == "list";
  const size_t names_min = list ? 0 : 1;
  if (words.size() < names_min)
    return wrong_usage("link: " + options.link.action + " needs a link's name", kLinkUsage);
  if (words.size() > names_min) {
    options.node.volume = words.front();
    words.erase(words.begin());
  }
  if (words.size() > 1 && (list || options.link.action == "add"))
    return wrong_usage("link: '" + words.back() + "' is too much", kLinkUsage);
  if (list && !words.empty())
    return wrong_usage("link: '" + words.front() + "' is too much", kLinkUsage);
  for (const std::string& name : words)
    if (const Status good = check_name("link", name); !good) return usage_error(good.error());
  options.link.names = std::move(words);
  return ok_status();
}

}  // namespace

Status prepare_link(Options& options) {
  const std::vector<std::string>& words = options.link.words;
  if (words.empty() || !is_action(words.front()))
    return wrong_usage(
        words.empty() ? "link: no action given" : "link: '" + words.front() + "' is not an action",
        kLinkUsage);
  options.link.action = words.front();
  const bool add = options.link.action == "add";
  std::vector<std::string> names;
  for (auto word = words.begin() + 1; word != words.end(); ++word) {
    if (word->find('=') == std::string::npos) {
      names.push_back(*word);
      continue;
    }
    if (!add) return wrong_usage("link: '" + *word + "' goes with add only", kLinkUsage);
    if (const Status read = read_address(*word, options); !read) return read;
  }
  if (options.link.addresses.size() == 1)
    return wrong_usage("link: a link has two ends, and one address was given", kLinkUsage);
  if (!options.link.rate.empty()) {
    if (!add) return wrong_usage("link: --rate goes with add only", kLinkUsage);
    if (const Result<uint64_t> rate = parse_link_rate(options.link.rate); !rate)
      return wrong_usage("--rate: " + rate.error().what, rate.error().action);
  }
  return read_names(std::move(names), options);
}

Status prepare_key(Options& options) {
  constexpr std::array<const char*, 5> kActions{"new", "show", "add", "reload", "renew"};
  constexpr const char* kUsage = "write: twinblock key new (show, add, reload, renew) VOLUME";
  const std::vector<std::string>& words = options.key.words;
  if (words.empty()) return wrong_usage("key: no action given", kUsage);
  options.key.action = words.front();
  if (std::find(kActions.begin(), kActions.end(), options.key.action) == kActions.end())
    return wrong_usage("key: '" + words.front() + "' is not an action", kUsage);
  if (words.size() > 2) return wrong_usage("key: '" + words[2] + "' is too much", kUsage);
  if (words.size() == 2) options.node.volume = words[1];
  if (!options.node.volume.empty())
    if (const Status good = check_name("volume", options.node.volume); !good)
      return wrong_usage("key: " + good.error().what, good.error().action);
  return ok_status();
}

Status prepare_compression(Options& options) {
  constexpr const char* kUsage = "write: twinblock compression VOLUME off (on, auto) [--level N]";
  const std::vector<std::string>& words = options.compression.words;
  // A volume may be called like a mode: what comes last is the mode.
  const bool has_mode = !words.empty() && parse_compression(words.back()).has_value();
  const size_t before = words.size() - (has_mode ? 1 : 0);
  if (before > 1)
    return wrong_usage(has_mode ? "compression: '" + words[1] + "' is too much"
                                : "compression: '" + words.back() + "' is not a mode",
                       kUsage);
  if (before == 1) options.node.volume = words.front();
  if (has_mode) options.compression.mode = words.back();
  return ok_status();
}

}  // namespace twinblock
