// The verb `probe`: what the links of a volume will really give, measured over them.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "twinblock/actions.h"
#include "twinblock/control_client.h"
#include "twinblock/json_fields.h"
#include "twinblock/probe.h"
#include "twinblock/probe_text.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr auto kLook = std::chrono::milliseconds(100);

std::vector<std::string> links_of(const Options& options, const json& status) {
  if (!options.probe.links.empty()) return options.probe.links;
  std::vector<std::string> names;
  for (const json& link : array_at(status, "links")) names.push_back(text_at(link, "name"));
  return names;
}

// Until the probe that began as `number` has ended. An error: the node does not answer, or another probe is asked for
// from elsewhere.
Result<json> end_of_probe(const std::string& socket, const std::string& link, uint64_t number) {
  bool told = false;
  for (;;) {
    const Result<json> answer = control_request(socket, "probe", {{"action", "result"}}, kAskTimeout_ns);
    if (!answer) return answer.error();
    const json probe = object_at(answer.value(), "probe");
    if (count_at(probe, "number") != number)
      return refused("link " + link + ": the node has begun another probe meanwhile", "probe it again");
    const std::string stage = text_at(probe, "stage");
    if (stage == "done" || stage == "failed") return probe;
    if (stage == "waiting" && !std::exchange(told, true) && ::isatty(STDERR_FILENO) != 0)
      std::fputs("clients write: the next stream waits, so that it costs them little\n", stderr);
    std::this_thread::sleep_for(kLook);
  }
}

Result<json> probe_link(const Options& options, const std::string& socket, const std::string& link,
                        const std::string& node, const std::string& peer) {
  const Result<json> begun = control_request(
      socket, "probe", {{"action", "begin"}, {"link", link}, {"duty", options.probe.duty}}, kAskTimeout_ns);
  if (!begun) return begun.error();
  const Result<json> probe = end_of_probe(socket, link, count_at(begun.value(), "number"));
  if (!probe) return probe.error();
  if (text_at(probe.value(), "stage") == "done") return probe_json(probe.value(), node, peer);
  return json{{"link", link}, {"from", node}, {"to", peer}, {"error", text_at(probe.value(), "error")}};
}

Error cannot_write(const std::string& path) {
  return refused("probe: " + path + ": " + std::strerror(errno), "name a file that can be written: --plot FILE.svg");
}

// Before anything is measured. Leaves what is there as it is.
Status check_picture(const std::string& path) {
  const bool was_there = ::access(path.c_str(), F_OK) == 0;
  if (!std::ofstream(path, std::ios::app)) return cannot_write(path);
  if (!was_there) ::unlink(path.c_str());
  return ok_status();
}

Status write_picture(const std::string& path, const std::string& picture) {
  std::ofstream file(path, std::ios::trunc);
  if (file << picture && file.flush()) return ok_status();
  return cannot_write(path);
}

}  // namespace

Result<Output> run_probe(const Options& options, const std::string& socket) {
  if (!options.probe.plot.empty())
    if (Status writable = check_picture(options.probe.plot); !writable) return writable.error();
  const Result<json> status = ask_status(socket);
  if (!status) return status.error();
  const std::string node = text_at(status.value(), "node");
  const std::string peer = text_at(object_at(status.value(), "peer"), "name");
  Output output;
  json links = json::array();
  for (const std::string& link : links_of(options, status.value())) {
    const Result<json> shown = probe_link(options, socket, link, node, peer);
    if (!shown) return shown.error();
    output.text += (output.text.empty() ? "" : "\n") + probe_text(shown.value());
    if (!text_at(shown.value(), "error").empty()) output.exit_status = kExitRefused;
    links.push_back(shown.value());
  }
  if (!options.probe.plot.empty()) {
    if (Status written = write_picture(options.probe.plot, probe_picture(links)); !written) return written.error();
    output.text += "\nThe picture is in " + options.probe.plot + ".\n";
  }
  output.data = {{"volume", text_at(status.value(), "volume")}, {"node", node}, {"links", std::move(links)}};
  return output;
}

}  // namespace twinblock
