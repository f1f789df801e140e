// The file by which the nodes know each other.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/limits.h"
#include "config/config.h"
#include "io/posix/files.h"
#include "io/posix/link_key.h"
#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/json_fields.h"
#include "twinblock/locate.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::nanoseconds kRenewPatience{limits::kKeyRenewal_ns};
constexpr std::chrono::milliseconds kRenewLook{20};
constexpr uint64_t kPeerSilent_ns = kSecond_ns;

// What the volume's file says of it.
struct KeyPlace {
  std::string config;
  std::string volume;
  std::string path;
  bool named = false;  // in the file
  bool off = false;    // encryption = "off"
};

// A file that is still to be written has its key where it most probably will.
Result<KeyPlace> find_key(const NodeOptions& options) {
  const Result<std::string> found = locate_config(options);
  if (!found) return found.error();
  KeyPlace place{found.value(), options.volume, {}};
  if (const Result<FileKind> kind = file_kind(place.config);
      kind && kind.value() == FileKind::kMissing) {
    if (place.volume.empty())
      return wrong_usage("there is no " + place.config, "name the volume's file with --config");
  } else {
    const Result<Config> config = load_config(place.config);
    if (!config) return wrong_usage(config.error().what, config.error().action);
    if (!place.volume.empty() && place.volume != config.value().volume)
      return wrong_usage(place.config + " describes volume '" + config.value().volume + "', not '" +
                         place.volume + "'");
    place.volume = config.value().volume;
    place.path = config.value().key;
    place.off = config.value().encryption == Encryption::kOff;
  }
  place.named = !place.path.empty();
  if (!place.named) place.path = fs::path(place.config).replace_extension(".key").string();
  return place;
}

// The exit status is not the kernel's number.
Error refused(Error error) {
  error.code = kExitRefused;
  return error;
}

Result<Output> make_key(const KeyPlace& place) {
  const LinkKey key = make_link_key();
  if (Status folder = make_directories(fs::path(place.path).parent_path()); !folder)
    return refused(folder.error());
  if (Status written = write_link_keys(place.path, place.volume, {key}); !written)
    return refused(written.error());
  Output output;
  output.data = {{"key", key.fingerprint}, {"path", place.path}};
  output.text = "made " + place.path + ", key " + key.fingerprint + "\n" +
                "to do: copy it to the other host, for example with: scp -p " + place.path +
                " OTHER:" + place.path + "\n";
  if (!place.named)
    output.text += "to do: on both hosts, add key = \"" + place.path +
                   "\" above the first table of " + place.config + "\n";
  if (place.off)
    output.text += "to do: on both hosts, remove encryption = \"off\" from " + place.config + "\n";
  return output;
}

Result<Output> show_key(const KeyPlace& place) {
  const Result<LinkKeys> keys = read_link_keys(place.path);
  if (!keys) return refused(keys.error());
  Output output;
  output.data = {{"key", keys.value().front().fingerprint}, {"path", place.path}};
  output.text = keys.value().front().fingerprint + "\n";
  for (size_t i = 1; i < keys.value().size(); ++i) {
    output.data["also"].push_back(keys.value()[i].fingerprint);
    output.text += keys.value()[i].fingerprint + "  (taken from the peer as well)\n";
  }
  return output;
}

Result<Output> add_key(const KeyPlace& place) {
  Result<LinkKeys> keys = read_link_keys(place.path);
  if (!keys) return refused(keys.error());
  if (keys.value().size() >= kLinkKeysMax)
    return Error{place.path + " has a second key already, " + keys.value().back().fingerprint,
                 "go on with it: twinblock key reload " + place.volume + " on both hosts"};
  keys.value().push_back(make_link_key());
  if (Status written = replace_link_keys(place.path, place.volume, keys.value()); !written)
    return refused(written.error());
  Output output;
  output.data = {{"key", keys.value().back().fingerprint}, {"path", place.path}};
  output.text = "added key " + keys.value().back().fingerprint + " to " + place.path + "\n" +
                "to do: copy the file to the other host, for example with: scp -p " + place.path +
                " OTHER:" + place.path + "\n" + "to do: on both hosts: twinblock key reload " +
                place.volume + "\nto do: then, on one after the other: twinblock key renew " +
                place.volume + "\n";
  return output;
}

// --- what a node does with it

Result<json> order(const std::string& socket, const char* action) {
  return control_request(socket, "key", json{{"action", action}}, kAskTimeout_ns);
}

// Of a node: its own file says where its key is.
Result<KeyPlace> key_of_node(const json& status) {
  NodeOptions of_node;
  of_node.config = text_at(status, "config");
  return find_key(of_node);
}

// What of a link that is up rests on a key that the file has no more.
std::string on_dropped_keys(const json& status, const KeyPlace& place, const LinkKeys& keys) {
  std::string told;
  for (const json& link : array_at(status, "links")) {
    const std::string protection = text_at(link, "encryption");
    const size_t at = protection.rfind("key ");
    if (text_at(link, "state") != "up" || at == protection.npos) continue;
    const std::string key = protection.substr(at + 4);
    if (find_link_key(keys, key) == nullptr)
      told += "link " + text_at(link, "name") + " keeps the connection that was made with key " + key + ", which " +
              place.path + " has no more\n";
  }
  if (!told.empty())
    told += "to do: for new connections: twinblock key renew " + place.volume +
            "; or restart the node, if somebody else may have made these\n";
  return told;
}

Result<Output> reload_key(const std::string& socket) {
  const Result<json> done = order(socket, "reload");
  if (!done) return done.error();
  const std::string key = text_at(done.value(), "key");
  Output output{done.value(), "the node has read its keys, and proves itself by " + key + "\n"};
  const Result<json> status = ask_status(socket);
  const Result<KeyPlace> place = status ? key_of_node(status.value()) : status.error();
  const Result<LinkKeys> keys = place ? read_link_keys(place.value().path) : place.error();
  if (keys) output.text += on_dropped_keys(status.value(), place.value(), keys.value());
  return output;
}

// Whether every link that is up has a connection with this key; in `missing` which has not, and why.
bool all_have(const json& status, const std::string& key, std::string& missing) {
  missing.clear();
  bool any = false;
  for (const json& link : array_at(status, "links")) {
    if (text_at(link, "state") != "up") continue;
    any = true;
    if (text_at(link, "encryption").ends_with("key " + key)) continue;
    missing = "link " + text_at(link, "name") + ": " + text_at(link, "last_error");
  }
  if (!any) missing = "no link is up";
  return missing.empty();
}

// What helps where not every link has got one with the key. A peer that was renewed first may have dropped the old key,
// perhaps because it was stolen: this file, which still has both, is not to be written over that one's.
std::string what_to_do(const json& status, const KeyPlace& place) {
  const auto is_up = [](const json& link) { return text_at(link, "state") == "up"; };
  const std::string again = ", and run `twinblock key renew " + place.volume + "` again";
  if (const json links = array_at(status, "links"); std::none_of(links.begin(), links.end(), is_up))
    return "wait until a link is up" + again;
  // Its host stands still: whatever keys it has, it takes no connection.
  const json peer = status.value("peer", json::object());
  if (time_at_ns(peer, "silent_ms", static_cast<double>(kMillisecond_ns)) > kPeerSilent_ns)
    return "wait until " + text_at(peer, "name") + " is heard" + again;
  return "where `twinblock key show " + place.volume + "` on the other host does not name that key, copy " +
         place.path + " there; run `twinblock key reload " + place.volume +
         "` there, and try again; where only that host can begin connections, run `twinblock key renew " +
         place.volume + "` there first";
}

// Waits until every link that is up has a connection with this key.
Status wait_for_all(const std::string& socket, const KeyPlace& place, const std::string& key) {
  std::string missing;
  const auto deadline = std::chrono::steady_clock::now() + kRenewPatience;
  for (;;) {
    const Result<json> status = ask_status(socket);
    if (!status) return status.error();
    if (all_have(status.value(), key, missing)) return ok_status();
    if (std::chrono::steady_clock::now() > deadline)
      return Error{"not every link has got a connection with key " + key + " (" + missing + ")",
                   what_to_do(status.value(), place)};
    std::this_thread::sleep_for(kRenewLook);
  }
}

Result<Output> renew_key(const std::string& socket, const KeyPlace& place) {
  const Result<json> begun = order(socket, "renew");
  if (!begun) return begun.error();
  const std::string key = text_at(begun.value(), "key");
  if (Status all = wait_for_all(socket, place, key); !all) {
    (void)order(socket, "reload");
    return Error{all.error().what + "; the old key stays in use", all.error().action};
  }
  Result<LinkKeys> keys = read_link_keys(place.path);
  if (!keys) return refused(keys.error());
  if (keys.value().back().fingerprint != key)
    return Error{place.path + " was changed meanwhile", "try again"};
  if (Status written = replace_link_keys(place.path, place.volume, {keys.value().back()}); !written)
    return refused(written.error());
  const Result<json> read = order(socket, "reload");
  if (!read) return read.error();
  // A link that was lost meanwhile may have got a connection with the old key once more.
  const Result<json> status = ask_status(socket);
  if (!status) return status.error();
  if (std::string missing; !all_have(status.value(), key, missing)) {
    if (const Result<json> again = order(socket, "renew"); !again) return again.error();
    if (Status all = wait_for_all(socket, place, key); !all) return all.error();
  }
  return Output{read.value(), "every link has a new connection with key " + key + ", the only one in " +
                                  place.path + " now\n"};
}

}  // namespace

Result<Output> run_key(const Options& options, const std::string& /*socket*/) {
  if (options.key.action == "reload" || options.key.action == "renew") {
    const Result<std::string> socket = find_node(options);
    if (!socket) return socket.error();
    if (options.key.action == "reload") return reload_key(socket.value());
    const Result<json> status = ask_status(socket.value());
    if (!status) return status.error();
    const Result<KeyPlace> place = key_of_node(status.value());
    return place ? renew_key(socket.value(), place.value()) : place.error();
  }
  const Result<KeyPlace> place = find_key(options.node);
  if (!place) return place.error();
  if (options.key.action == "add") return add_key(place.value());
  return options.key.action == "new" ? make_key(place.value()) : show_key(place.value());
}

}  // namespace twinblock
