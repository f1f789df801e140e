// The verb `web`: a page about all volumes of this host.
#include <systemd/sd-daemon.h>
#include <time.h>

#include <cstdio>

#include "base/units.h"
#include "config/address.h"
#include "twinblock/actions.h"
#include "twinblock/json_fields.h"
#include "twinblock/stop_pause.h"
#include "twinblock/web_gather.h"
#include "twinblock/web_server.h"

namespace twinblock {
namespace {

constexpr uint64_t kEvery_ns = kSecond_ns;

uint64_t wall_now_ms() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return (static_cast<uint64_t>(now.tv_sec) * kSecond_ns + static_cast<uint64_t>(now.tv_nsec)) / kMillisecond_ns;
}

// Of the volume that was named; else of all that are here, or are to be.
std::vector<std::string> sockets_of(const NodeOptions& node) {
  if (node.volume.empty() && node.config.empty() && node.node.empty() && node.socket.empty())
    return expected_control_sockets();
  const Result<std::string> one = locate_control_socket(node);
  return one ? std::vector<std::string>{one.value()} : std::vector<std::string>{};
}

}  // namespace

Status prepare_web(Options& options) {
  const Result<Address> address = parse_listen_address(options.web.listen);
  if (!address) return wrong_usage("web: --listen: " + address.error().what, address.error().action);
  options.web.listen = address.value().text();
  return ok_status();
}

Result<Output> run_web(const Options& options, const std::string&) {
  StopPause pause;  // before the server's thread begins, so that signals come here
  const auto server = WebServer::open(options.web.listen, options.web.hosts);
  if (!server) return server.error();
  const std::string url = "http://" + options.web.listen + "/";
  if (options.print_json)
    std::printf("%s\n", json_text(versioned({{"url", url}}), 2).c_str());
  else
    std::printf("twinblock web: %s\n", url.c_str());
  std::fflush(stdout);
  WebGather gather;
  bool told = false;
  do {
    server.value()->show(gather.ask(sockets_of(options.node), wall_now_ms()));
    if (!told) sd_notify(0, "READY=1");
    told = true;
  } while (pause.wait(kEvery_ns, {}));
  Output output;
  output.printed = true;
  return output;
}

}  // namespace twinblock
