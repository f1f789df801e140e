// A real engine that has nobody to talk to, and control requests to it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "control/event_words.h"
#include "control/requests.h"

namespace twinblock {

using nlohmann::json;

struct StillTimer final : Timer {
  void arm(uint64_t) override { armed_ = true; }
  void disarm() override { armed_ = false; }
  [[nodiscard]] bool armed() const override { return armed_; }
  bool armed_ = false;
};
struct StillClock final : Clock {
  [[nodiscard]] uint64_t now_ns() const override { return 1000; }
  [[nodiscard]] uint64_t wall_ns() const override { return 1'700'000'000 * kSecond_ns; }
  [[nodiscard]] std::unique_ptr<Timer> make_timer(std::function<void()>) override {
    return std::make_unique<StillTimer>();
  }
  [[nodiscard]] bool on_loop() const override { return is_on_loop; }
  bool is_on_loop = true;  // the caller
};
struct NoLog final : Log {
  void log(Severity, const std::string&) override {}
};
struct NoNetwork final : Network {
  std::unique_ptr<Connection> dial(const LinkAddresses&) override { return nullptr; }
  Status listen(const LinkAddresses&, std::function<void(std::unique_ptr<Connection>)>,
                std::function<void(const Refusal&)>) override {
    return ok_status();
  }
  void unlisten(const std::string&) override {}
};
struct QueueDisk final : Disk {
  void submit(DiskRequest& request) override { requests.push_back(&request); }
  [[nodiscard]] uint64_t size_bytes() const override { return kMiB; }
  [[nodiscard]] bool fast_zero() const override { return true; }
  [[nodiscard]] Status grow(uint64_t bytes, bool) override {
    return bytes <= size_bytes() ? ok_status() : Status(Error{"it has no more room", "", ENOSPC});
  }
  void finish_all() {
    while (!requests.empty()) {
      DiskRequest& request = *requests.front();
      requests.erase(requests.begin());
      request.error = 0;
      request.done(request);
    }
  }
  std::vector<DiskRequest*> requests;
};

struct NoWorkers final : Workers {
  void run(std::function<void()>, std::function<void()>) override {}
};

class ControlTest : public testing::Test {
 protected:
  ControlTest() {
    config_.path = "/etc/r0.toml";
    config_.volume = "r0";
    config_.size_bytes = kMiB;
    config_.nodes = {{"alpha", "/a", "/am", "/run"}, {"beta", "/b", "/bm", "/run"}};
    config_.links.push_back({"main", {{"alpha", "10.0.0.1:1"}, {"beta", "10.0.0.2:1"}}, 0});
    config_.peer_timeout_ns = 5 * kSecond_ns;
    config_.link_timeout_ns = 500 * kMillisecond_ns;
    metadata::Loaded loaded;
    loaded.blank = true;
    engine_ = std::make_unique<Engine>(Engine::Parts{config_,
                                                     "alpha",
                                                     clock_,
                                                     log_,
                                                     network_,
                                                     data_,
                                                     metadata_,
                                                     workers_,
                                                     std::move(loaded),
                                                     DataFound::kNone,
                                                     {},
                                                     [this] { return ++random_; },
                                                     kEventWords});
    EXPECT_TRUE(engine_->start().ok());
  }

  json ask(const std::string& request) {
    std::vector<std::string> replies;
    handle_control_request(*engine_, facts_, request,
                           [&replies](std::string line) { replies.push_back(std::move(line)); });
    metadata_.finish_all();
    data_.finish_all();
    metadata_.finish_all();
    EXPECT_EQ(replies.size(), 1u) << request;
    if (replies.empty()) return {};
    EXPECT_EQ(replies[0].find('\n'), std::string::npos) << "one line a reply";
    return json::parse(replies[0]);
  }

  Config config_;
  StillClock clock_;
  NoLog log_;
  NoNetwork network_;
  QueueDisk data_, metadata_;
  NoWorkers workers_;
  uint64_t random_ = 0;
  NodeFacts facts_{"threads", "buffered", "nbd+unix:///?socket=/x", "/x.ctl", "/a", "/am", "/etc/r0.toml", 42};
  std::unique_ptr<Engine> engine_;
};

}  // namespace twinblock
