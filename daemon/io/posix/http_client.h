// Requests over HTTP and HTTPS, by libcurl, one at a time and each over a connection of its own: one that
// was kept might be found dead, and libcurl would send the request once more. For threads that may wait;
// stop() is for any. Nothing of the environment counts (proxies, .netrc), and no redirection is followed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace twinblock {

enum class HttpFailure {
  kNone,
  kNoSuchHost,
  kRefused,
  kUnreachable,
  kTimeout,
  kUntrusted,  // by its certificate
  kTls,        // no agreement
  kOwnFile,    // a file of HttpTls can't be used
  kClosed,     // before the answer was whole
  kTooLong,
  kNoHttp,
  kStopped,
};

// PEM files; empty: none (of `ca`: whom this host trusts).
struct HttpTls {
  std::string ca;
  std::string certificate;
  std::string certificate_key;
};

struct HttpOutcome {
  int status = 0;  // of the answer, where there is no failure
  std::string body;
  HttpFailure failure = HttpFailure::kNone;
  std::string detail;  // of a failure: libcurl's or the system's words; may be empty
  bool sent = false;   // the server may have got the request, be it without an answer
};

class HttpClient {
 public:
  // What is longer than `answer_bytes_max` (headers and body, each) is a failure.
  HttpClient(HttpTls tls, size_t answer_bytes_max);
  // No request is under way.
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  struct Post {
    std::string url;
    std::string body;           // JSON
    std::string authorization;  // the header's value; empty: without
  };
  // Ends by `deadline_ns` (monotonic), or stop().
  HttpOutcome post(const Post& request, uint64_t deadline_ns);

  // Any thread: the request under way, and each later one, ends at once as kStopped.
  void stop();

 private:
  const HttpTls tls_;
  const size_t answer_bytes_max_;
  void* const many_;  // libcurl's CURLM: one request at a time, but one that can be called off
  std::atomic<bool> stopping_{false};
};

}  // namespace twinblock
