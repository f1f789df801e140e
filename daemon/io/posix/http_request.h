// The head of an HTTP/1.1 request, as far as a server for one page needs it. Pure. Internal to
// io/posix.
#pragma once

#include <optional>
#include <string>

namespace twinblock {

struct HttpRequest {
  int status = 200;  // else what is wrong with it: 400, 405 or 505
  std::string path;  // without the query
};

// Of what has come so far; nullopt while the head is not whole.
std::optional<HttpRequest> parse_http_request(const std::string& input);

// A whole answer, after which the connection closes.
std::string http_answer(int status, const std::string& type, const std::string& body);

}  // namespace twinblock
