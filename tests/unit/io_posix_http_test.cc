// HttpServer against plain TCP clients: what it answers, limits, clients that misbehave.
#include "io/posix/http_server.h"

#include <optional>
#include <string>

#include "io/posix/http_request.h"
#include "io_posix_server_support.h"

namespace twinblock {
namespace {

int status_of(const std::string& input) {
  const auto request = parse_http_request(input);
  return request ? request->status : 0;
}

std::string path_of(const std::string& target) {
  return parse_http_request("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n").value().path;
}

TEST(HttpRequest, a_whole_get_is_understood) {
  EXPECT_EQ(status_of("GET /metrics HTTP/1.1\r\nHost: x\r\nAccept: */*\r\n\r\n"), 200);
  EXPECT_EQ(status_of("GET /metrics HTTP/1.0\r\n\r\n"), 200) << "no Host is needed";
  EXPECT_EQ(status_of("GET /metrics HTTP/1.1\nhost: x\n\n"), 200);
  EXPECT_EQ(path_of("/metrics"), "/metrics");
  EXPECT_EQ(path_of("/metrics?debug=1"), "/metrics");
  EXPECT_EQ(path_of("http://host:9777/metrics"), "/metrics");
  EXPECT_EQ(path_of("http://host"), "/");
}

TEST(HttpRequest, half_a_request_is_none_yet) {
  const std::string whole = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  for (size_t length = 0; length < whole.size(); ++length)
    EXPECT_EQ(status_of(whole.substr(0, length)), 0) << length;
  EXPECT_EQ(status_of(whole + "trailing"), 200);
}

TEST(HttpRequest, anything_else_is_named) {
  for (const char* method : {"POST", "HEAD", "PUT", "DELETE", "OPTIONS"})
    EXPECT_EQ(status_of(std::string(method) + " /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), 405);
  EXPECT_EQ(status_of("GET /metrics HTTP/2.0\r\nHost: x\r\n\r\n"), 505);
  for (const char* wrong :
       {"\r\n\r\n", "GET\r\n\r\n", "GET /metrics\r\n\r\n", "GET  HTTP/1.1\r\nHost: x\r\n\r\n",
        "get /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "GET metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /metrics HTTP/1.1\r\n\r\n", "GET /metrics HTTP/1.1\r\nHost\r\n\r\n",
        "GET /metrics HTTP/1.1\r\nHost : x\r\n\r\n", "GET /metrics FTP/1.1\r\nHost: x\r\n\r\n",
        "\x16\x03\x01\x02\n\n", "GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"})
    EXPECT_EQ(status_of(wrong), 400) << wrong;
}

class HttpServerTest : public ServerTest<HttpServer> {
 protected:
  void open(HttpLimits limits = {}) {
    start(HttpServer::open(
        *loop_, "127.0.0.1:0",
        [this](const std::string& path) -> std::optional<HttpServer::Page> {
          if (path != "/metrics") return std::nullopt;
          return HttpServer::Page{"text/plain", body_};
        },
        limits));
    if (server_ != nullptr) loop_.call([this] { address_ = server_->address(); });
  }
  [[nodiscard]] std::string ask(const std::string& text) const {
    const RawClient client(address_);
    client.send(text);
    return client.all();
  }

  std::string address_;
  std::string body_ = "up 1\n";
};

const std::string kGet = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

TEST_F(HttpServerTest, serves_its_page_and_closes) {
  open();
  EXPECT_EQ(ask(kGet),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n"
            "Connection: close\r\n\r\nup 1\n");
  body_ = std::string(3'000'000, 'x');  // more than any socket's buffer
  EXPECT_EQ(ask(kGet).size(), body_.size() + std::string("HTTP/1.1 200 OK\r\nContent-Type: "
                                                         "text/plain\r\nContent-Length: 3000000"
                                                         "\r\nConnection: close\r\n\r\n")
                                                 .size());
}

TEST_F(HttpServerTest, answers_what_it_does_not_serve) {
  open();
  EXPECT_TRUE(ask("GET / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 Not Found\r\n"));
  const std::string post =
      ask("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody" +
          std::string(100'000, 'x'));
  EXPECT_TRUE(post.starts_with("HTTP/1.1 405 ")) << post;
  EXPECT_NE(post.find("\r\nAllow: GET\r\n"), std::string::npos);
  EXPECT_TRUE(ask("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
}

TEST_F(HttpServerTest, a_request_that_is_too_long_is_refused) {
  open();
  EXPECT_TRUE(
      ask("GET /metrics HTTP/1.1\r\nX: " + std::string(20'000, 'x')).starts_with("HTTP/1.1 431 "));
}

TEST_F(HttpServerTest, half_a_request_and_silence_are_not_waited_for_forever) {
  HttpLimits limits;
  limits.timeout_ns = 50 * kMillisecond_ns;
  open(limits);
  // Who is so late with the first half is taken for silent.
  EXPECT_TRUE(soon([&] { return ask("GET /metr").starts_with("HTTP/1.1 408 "); }));
  EXPECT_EQ(RawClient(address_).all(), "");
}

TEST_F(HttpServerTest, one_who_reads_nothing_does_not_keep_others_waiting) {
  open();
  body_ = std::string(20'000'000, 'x');
  const RawClient deaf(address_);
  deaf.send(kGet);  // and reads nothing
  EXPECT_EQ(ask("GET / HTTP/1.0\r\n\r\n").substr(9, 3), "404") << "others are served";
}

TEST_F(HttpServerTest, the_oldest_gives_way_where_there_are_too_many) {
  HttpLimits limits;
  limits.connections = 2;
  open(limits);
  const RawClient first(address_);
  const RawClient second(address_);
  second.send("GET ");
  EXPECT_NE(ask(kGet).find("up 1"), std::string::npos);
  EXPECT_EQ(first.all(), "");
  second.send("/metrics HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(second.all().find("up 1"), std::string::npos);
}

TEST_F(HttpServerTest, an_address_that_is_taken_is_named) {
  open();
  const auto other = HttpServer::open(
      *loop_, address_, [](const std::string&) { return std::optional<HttpServer::Page>(); });
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().what.find(address_), std::string::npos);
  EXPECT_NE(other.error().action.find("metrics"), std::string::npos);
}

}  // namespace
}  // namespace twinblock
