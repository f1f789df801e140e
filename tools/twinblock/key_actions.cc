// The file by which the nodes know each other.
#include <filesystem>

#include "config/config.h"
#include "io/posix/files.h"
#include "io/posix/link_key.h"
#include "twinblock/actions.h"
#include "twinblock/locate.h"

namespace twinblock {
namespace {

namespace fs = std::filesystem;

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

Result<Output> make_key(const KeyPlace& place) {
  const LinkKey key = make_link_key();
  if (Status folder = make_directories(fs::path(place.path).parent_path()); !folder)
    return folder.error();
  if (Status written = write_link_keys(place.path, place.volume, {key}); !written)
    return written.error();
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
  if (!keys) return keys.error();
  Output output;
  output.data = {{"key", keys.value().front().fingerprint}, {"path", place.path}};
  output.text = keys.value().front().fingerprint + "\n";
  for (size_t i = 1; i < keys.value().size(); ++i) {
    output.data["also"].push_back(keys.value()[i].fingerprint);
    output.text += keys.value()[i].fingerprint + "  (taken from the peer as well)\n";
  }
  return output;
}

}  // namespace

Result<Output> run_key(const Options& options, const std::string& /*socket*/) {
  const Result<KeyPlace> place = find_key(options.node);
  if (!place) return place.error();
  return options.key.action == "new" ? make_key(place.value()) : show_key(place.value());
}

}  // namespace twinblock
