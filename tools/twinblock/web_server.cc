#include "twinblock/web_server.h"

#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <mutex>

#include "io/posix/tcp_address.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

// Of each: idle ones are closed after the time, further ones wait in the kernel until there is room.
constexpr unsigned kConnectionsMax = 400;
constexpr unsigned kSilence_s = 10;
constexpr size_t kConnectionMemory_bytes = 16 * 1024;  // a request's line and headers, in all

// Nothing from elsewhere, nothing kept, in no frame of anybody's.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cache-Control", "no-store"},
};

}  // namespace

struct WebServer::State {
  std::vector<std::string> names;
  // Two threads hand the figures over: who gathers them, and the server's own. Held for a copy of a pointer.
  std::mutex mutex;
  std::shared_ptr<const WebFigures> figures = std::make_shared<WebFigures>();
  MHD_Daemon* daemon = nullptr;
  ~State() {
    if (daemon != nullptr) MHD_stop_daemon(daemon);
  }
  std::shared_ptr<const WebFigures> shown() {
    const std::lock_guard lock(mutex);
    return figures;
  }
};

namespace {

const char* header(MHD_Connection* connection, const char* name) {
  const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

MHD_Result send(MHD_Connection* connection, const WebAnswer& answer) {
  MHD_Response* response = MHD_create_response_from_buffer(
      answer.body.size(), const_cast<char*>(answer.body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  MHD_add_response_header(response, "Content-Type", answer.type.c_str());
  for (const auto& [name, value] : kHeaders) MHD_add_response_header(response, name, value);
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED) MHD_add_response_header(response, "Allow", "GET, HEAD");
  const MHD_Result queued = MHD_queue_response(connection, answer.status, response);
  MHD_destroy_response(response);
  return queued;
}

// On the server's thread. A body is not read: who sends one is answered and cut off.
template <typename State>
MHD_Result answered(void* state, MHD_Connection* connection, const char* url, const char* method, const char*,
                    const char*, size_t*, void**) {
  auto& of = *static_cast<State*>(state);
  const WebRequest request{method, url, header(connection, "Host")};
  return send(connection, web_answer(request, *of.shown(), of.names));
}

}  // namespace

WebServer::WebServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
WebServer::~WebServer() = default;

Result<std::unique_ptr<WebServer>> WebServer::open(const std::string& address, std::vector<std::string> names) {
  const Result<TcpAddress> parsed = parse_tcp_address(address);
  if (!parsed) return parsed.error();
  const TcpAddress& socket_address = parsed.value();
  auto state = std::make_unique<State>();
  state->names = std::move(names);
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD;
  if (socket_address.family() == AF_INET6) flags |= MHD_USE_IPv6;
  state->daemon = MHD_start_daemon(
      flags, 0, nullptr, nullptr, &answered<State>, state.get(), MHD_OPTION_SOCK_ADDR, socket_address.get(),
      MHD_OPTION_CONNECTION_LIMIT, kConnectionsMax, MHD_OPTION_CONNECTION_TIMEOUT, kSilence_s,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory_bytes,
      MHD_OPTION_END);
  if (state->daemon == nullptr) {
    const int error = errno;
    return refused("web: can't listen on " + address + ": " + system_error(error, "listen").what,
                   "stop what listens there, or choose another address with --listen");
  }
  return std::unique_ptr<WebServer>(new WebServer(std::move(state)));
}

void WebServer::show(WebFigures figures) {
  auto fresh = std::make_shared<const WebFigures>(std::move(figures));
  const std::lock_guard lock(state_->mutex);
  state_->figures.swap(fresh);
}

}  // namespace twinblock
