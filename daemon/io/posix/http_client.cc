#include "io/posix/http_client.h"

#include <curl/curl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/checks.h"
#include "base/units.h"
#include "io/posix/monotonic.h"

namespace twinblock {
namespace {

constexpr uint64_t kTurn_ns = 1 * kSecond_ns;

// What arrives, bounded.
struct Received {
  size_t bytes_max = 0;
  size_t header_bytes = 0;
  std::string body;
  bool too_long = false;
};

size_t take_header(char* /*data*/, size_t size, size_t count, void* to) {
  auto& received = *static_cast<Received*>(to);
  received.header_bytes += size * count;
  received.too_long = received.too_long || received.header_bytes > received.bytes_max;
  return received.too_long ? 0 : size * count;
}

size_t take_body(char* data, size_t size, size_t count, void* to) {
  auto& received = *static_cast<Received*>(to);
  received.too_long = received.too_long || received.body.size() + size * count > received.bytes_max;
  if (received.too_long) return 0;
  received.body.append(data, size * count);
  return size * count;
}

// A fence command must not inherit it.
curl_socket_t open_socket(void* /*context*/, curlsocktype /*purpose*/, curl_sockaddr* address) {
  return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

class Headers {
 public:
  ~Headers() { curl_slist_free_all(list_); }
  Headers() = default;
  Headers(const Headers&) = delete;
  Headers& operator=(const Headers&) = delete;
  void add(const std::string& line) {
    curl_slist* longer = curl_slist_append(list_, line.c_str());
    TB_CHECK(longer != nullptr, "out of memory");
    list_ = longer;
  }
  [[nodiscard]] curl_slist* get() const { return list_; }

 private:
  curl_slist* list_ = nullptr;
};

HttpFailure failure_of_connect(int error) {
  return error == ECONNREFUSED ? HttpFailure::kRefused : HttpFailure::kUnreachable;
}

HttpFailure failure_of(CURLcode code, int error, const Received& received, const std::string& detail) {
  if (received.too_long) return HttpFailure::kTooLong;
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
      return HttpFailure::kNoSuchHost;
    case CURLE_COULDNT_CONNECT:
      return failure_of_connect(error);
    case CURLE_OPERATION_TIMEDOUT:
      return HttpFailure::kTimeout;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
      return HttpFailure::kUntrusted;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CIPHER:
      return HttpFailure::kTls;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
      return HttpFailure::kOwnFile;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
      return HttpFailure::kNoHttp;
    default:
      // What a server says of the client's certificate comes with the first bytes (TLS 1.3).
      return detail.find("TLS") != detail.npos ? HttpFailure::kTls : HttpFailure::kClosed;
  }
}

// libcurl's own handle of one request.
class Transfer {
 public:
  Transfer(const HttpTls& tls, const HttpClient::Post& request, size_t bytes_max)
      : easy_(curl_easy_init()) {
    TB_CHECK(easy_ != nullptr, "out of memory");
    received_.bytes_max = bytes_max;
    set_request(request);
    set_bounds();
    set_tls(tls);
  }
  ~Transfer() { curl_easy_cleanup(easy_); }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  [[nodiscard]] CURL* get() const { return easy_; }
  // Before it was over.
  [[nodiscard]] HttpOutcome given_up(HttpFailure failure) const {
    HttpOutcome outcome;
    outcome.failure = failure;
    outcome.sent = sent();
    return outcome;
  }
  [[nodiscard]] HttpOutcome ended(CURLcode code) {
    if (code != CURLE_OK) {
      long error = 0;
      curl_easy_getinfo(easy_, CURLINFO_OS_ERRNO, &error);
      HttpOutcome outcome = given_up(failure_of(code, static_cast<int>(error), received_, words_.data()));
      const bool connecting = code == CURLE_COULDNT_CONNECT && error != 0;
      outcome.detail = connecting            ? std::strerror(static_cast<int>(error))
                       : words_[0] != '\0' ? words_.data()
                                             : curl_easy_strerror(code);
      return outcome;
    }
    HttpOutcome outcome;
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    outcome.status = static_cast<int>(status);
    outcome.sent = true;
    outcome.body = std::move(received_.body);
    return outcome;
  }

 private:
  template <typename Value>
  void set(CURLoption option, Value value) {
    TB_CHECK(curl_easy_setopt(easy_, option, value) == CURLE_OK, "libcurl knows the option");
  }
  void set_request(const HttpClient::Post& request) {
    headers_.add("Content-Type: application/json");
    headers_.add("Expect:");  // or a long body would wait for a "100 Continue"
    if (!request.authorization.empty()) headers_.add("Authorization: " + request.authorization);
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_COPYPOSTFIELDS, request.body.c_str());
    set(CURLOPT_HTTPHEADER, headers_.get());
    set(CURLOPT_ERRORBUFFER, words_.data());
    set(CURLOPT_HEADERFUNCTION, &take_header);
    set(CURLOPT_HEADERDATA, static_cast<void*>(&received_));
    set(CURLOPT_WRITEFUNCTION, &take_body);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&received_));
  }
  void set_bounds() {
    set(CURLOPT_OPENSOCKETFUNCTION, &open_socket);
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROTOCOLS_STR, "http,https");
    set(CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    set(CURLOPT_PROXY, "");
    set(CURLOPT_FRESH_CONNECT, 1L);
    set(CURLOPT_FORBID_REUSE, 1L);
    // Or the end of a request whose host is still looked up would wait for the name service.
    set(CURLOPT_QUICK_EXIT, 1L);
  }
  void set_tls(const HttpTls& tls) {
    set(CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!tls.ca.empty()) {
      set(CURLOPT_CAINFO, tls.ca.c_str());
      set(CURLOPT_CAPATH, static_cast<const char*>(nullptr));  // these and no others
    }
    if (!tls.certificate.empty()) {
      set(CURLOPT_SSLCERT, tls.certificate.c_str());
      set(CURLOPT_SSLKEY, tls.certificate_key.c_str());
    }
  }
  [[nodiscard]] bool sent() const {
    long bytes = 0;
    curl_easy_getinfo(easy_, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0;
  }

  CURL* const easy_;
  Headers headers_;
  Received received_;
  std::array<char, CURL_ERROR_SIZE> words_{};
};

CURLM* open_many() {
  static std::once_flag once;
  std::call_once(once, [] { TB_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl starts"); });
  CURLM* many = curl_multi_init();
  TB_CHECK(many != nullptr, "out of memory or descriptors");
  return many;
}

}  // namespace

HttpClient::HttpClient(HttpTls tls, size_t answer_bytes_max)
    : tls_(std::move(tls)), answer_bytes_max_(answer_bytes_max), many_(open_many()) {}

HttpClient::~HttpClient() { curl_multi_cleanup(many_); }

HttpOutcome HttpClient::post(const Post& request, uint64_t deadline_ns) {
  Transfer transfer(tls_, request, answer_bytes_max_);
  HttpOutcome outcome;
  TB_CHECK(curl_multi_add_handle(many_, transfer.get()) == CURLM_OK, "libcurl takes a request");
  for (int running = 1;;) {
    const uint64_t now_ns = monotonic_ns();
    if (stopping_ || now_ns >= deadline_ns) {
      outcome = transfer.given_up(stopping_ ? HttpFailure::kStopped : HttpFailure::kTimeout);
      break;
    }
    curl_multi_perform(many_, &running);
    int left = 0;
    if (const CURLMsg* message = curl_multi_info_read(many_, &left); message != nullptr) {
      outcome = transfer.ended(message->data.result);
      break;
    }
    const uint64_t wait_ns = std::min(deadline_ns - now_ns, kTurn_ns);
    curl_multi_poll(many_, nullptr, 0, static_cast<int>(wait_ns / kMillisecond_ns + 1), nullptr);
  }
  curl_multi_remove_handle(many_, transfer.get());
  return outcome;
}

void HttpClient::stop() {
  stopping_ = true;
  curl_multi_wakeup(many_);
}

}  // namespace twinblock
