#include "io/posix/http_request.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <utility>

namespace twinblock {
namespace {

constexpr std::array<std::pair<int, const char*>, 7> kReasons{
    {{200, "OK"},
     {400, "Bad Request"},
     {404, "Not Found"},
     {405, "Method Not Allowed"},
     {408, "Request Timeout"},
     {431, "Request Header Fields Too Large"},
     {505, "HTTP Version Not Supported"}}};

const char* reason_of(int status) {
  for (const auto& [code, reason] : kReasons)
    if (code == status) return reason;
  return "Error";
}

bool is_token(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
}

// Lines end with CRLF; a bare LF is taken, too.
std::string line_at(const std::string& head, size_t& at) {
  const size_t end = std::min(head.find('\n', at), head.size());
  std::string line = head.substr(at, end - at);
  at = std::min(end + 1, head.size());
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

// Whether the lines after the first are headers; `host`: whether Host is among them.
bool read_headers(const std::string& head, size_t at, bool& host) {
  while (at < head.size()) {
    const std::string line = line_at(head, at);
    if (line.empty()) break;
    const size_t colon = line.find(':');
    if (colon == std::string::npos || colon == 0 || line.find(' ') < colon) return false;
    host = host || ::strcasecmp(line.substr(0, colon).c_str(), "host") == 0;
  }
  return true;
}

std::string path_of(std::string target) {
  // The form that is meant for proxies has to be taken by servers, too.
  constexpr const char* kScheme = "http://";
  if (target.starts_with(kScheme)) {
    const size_t slash = target.find('/', std::string(kScheme).size());
    target = slash == std::string::npos ? "/" : target.substr(slash);
  }
  return target.substr(0, target.find('?'));
}

}  // namespace

std::optional<HttpRequest> parse_http_request(const std::string& input) {
  const size_t crlf = input.find("\r\n\r\n");
  const size_t lf = input.find("\n\n");
  const size_t end = std::min(crlf, lf);
  if (end == std::string::npos) return std::nullopt;
  const std::string head = input.substr(0, end);
  size_t at = 0;
  const std::string first = line_at(head, at);
  const size_t method_end = first.find(' ');
  const size_t target_end = first.rfind(' ');
  HttpRequest request;
  request.status = 400;
  if (method_end == std::string::npos || target_end <= method_end + 1) return request;
  const std::string method = first.substr(0, method_end);
  const std::string target = first.substr(method_end + 1, target_end - method_end - 1);
  const std::string version = first.substr(target_end + 1);
  bool host = false;
  const bool good = is_token(method) && target.find(' ') == std::string::npos &&
                    version.starts_with("HTTP/") && read_headers(head, at, host) &&
                    (version != "HTTP/1.1" || host);
  if (!good) return request;
  request.path = path_of(target);
  request.status = !version.starts_with("HTTP/1.")  ? 505
                   : method != "GET"                ? 405
                   : !request.path.starts_with('/') ? 400
                                                    : 200;
  return request;
}

std::string http_answer(int status, const std::string& type, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) + " " + reason_of(status) +
         "\r\nContent-Type: " + type + "\r\nContent-Length: " + std::to_string(body.size()) +
         (status == 405 ? "\r\nAllow: GET" : "") + "\r\nConnection: close\r\n\r\n" + body;
}

}  // namespace twinblock
