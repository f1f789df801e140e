#include "twinblock/promoter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <memory>
#include <mutex>
#include <optional>

#include "scripted_node.h"
#include "service_manager.h"
#include "temporary_directory.h"
#include "twinblock/process.h"

namespace twinblock {
namespace {

using nlohmann::json;

constexpr uint64_t kNever_ns = 120 * kSecond_ns;

// Alpha, as far as a promoter can tell; what it and the target's programs are told, in order.
struct Volume {
  std::mutex mutex;
  bool witness = true;
  bool primary = false;
  bool peer_connected = false;
  bool peer_primary = false;
  uint64_t term = 1;
  std::string state = "waiting";
  std::string refused;      // of promotions; empty: they are carried out
  std::string unanswered;   // the verb to which there is no answer yet
  bool start_fails = false;
  std::vector<std::string> done;
  unsigned asked = 0;  // for its status

  json status() const {
    json status = {{"volume", "r0"},
                   {"node", "alpha"},
                   {"role", primary ? "primary" : "secondary"},
                   {"state", state},
                   {"data", "current"},
                   {"term", term},
                   {"pid", 1},
                   {"uptime_s", 1000},
                   {"config", "/etc/twinblock/r0.toml"},
                   {"peer",
                    {{"name", "beta"},
                     {"connected", peer_connected},
                     {"role", peer_primary ? "primary" : "secondary"},
                     {"data", "current"},
                     {"silent_ms", 60'000}}}};
    if (witness) status["witness"] = {{"kind", "etcd"}};
    return status;
  }

  std::optional<std::string> answer(const std::string& verb, const json& args) {
    const std::lock_guard lock(mutex);
    if (verb == "events") {
      if (args.value("wait", false)) return std::nullopt;
      return ScriptedNode::good({{"instance", "one"}, {"last", 0}, {"events", json::array()}});
    }
    if (verb == "status") {
      ++asked;
      return ScriptedNode::good(status());
    }
    if (verb == unanswered) return std::nullopt;
    done.push_back(verb);
    if (verb == "promote") {
      EXPECT_EQ(args, (json{{"peer_is_dead", false}})) << "nobody has given his word";
      if (!refused.empty()) return ScriptedNode::refusal("not now", refused);
      ++term;
    }
    primary = verb == "promote";
    return ScriptedNode::good({{"message", "done"}});
  }
};

class PromoterTest : public testing::Test {
 protected:
  PromoterTest() {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &stops, &before_);  // the promoter's own thread reads it
    setup_.socket = dir_ / "r0.ctl";
    setup_.rules = {"", 0, 0};
    setup_.look_ns = 50 * kMillisecond_ns;
    setup_.target = {"r0", "", program("start", "test ! -e " + (dir_ / "fails")), program("stop", "true")};
    begin_node();
  }
  ~PromoterTest() override {
    if (thread_.joinable()) (void)stop();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  void begin_node() {
    node_ = std::make_unique<ScriptedNode>(
        setup_.socket,
        [this](const std::string& verb, const json& args) { return volume_.answer(verb, args); });
  }
  void end_node() { node_.reset(); }

  std::string program(const std::string& name, const std::string& script) {
    const std::string path = dir_ / ("do_" + name);
    std::ofstream(path) << "#!/bin/sh\necho " << name << " >>" << (dir_ / "targets") << "\n" << script << "\n";
    chmod(path.c_str(), 0755);
    return path;
  }
  std::string targets() {
    std::ifstream file(dir_ / "targets");
    std::string all;
    for (std::string line; std::getline(file, line);) all += (all.empty() ? "" : " ") + line;
    return all;
  }
  std::string done() {
    const std::lock_guard lock(volume_.mutex);
    std::string all;
    for (const std::string& verb : volume_.done) all += (all.empty() ? "" : " ") + verb;
    return all;
  }
  void set(const std::function<void(Volume&)>& change) {
    const std::lock_guard lock(volume_.mutex);
    change(volume_);
  }

  void begin() {
    thread_ = std::thread([this] {
      ended_ = run_promoter_loop(setup_, [this](const std::string& what) {
        const std::lock_guard lock(volume_.mutex);
        said_ += what + "\n";
      });
      over_ = true;
    });
  }
  // One that is to end by itself.
  Result<Output> run() {
    begin();
    wait([this] { return over_.load(); }, "its end");
    if (!over_) return stop();
    thread_.join();
    return ended_;
  }
  Result<Output> stop() {
    kill(getpid(), SIGTERM);
    thread_.join();
    return ended_;
  }
  void wait(const std::function<bool()>& condition, const char* what) {
    const uint64_t deadline_ns = steady_now_ns() + kNever_ns;
    while (!condition()) {
      ASSERT_LT(steady_now_ns(), deadline_ns) << what << "; said:\n" << said();
      sleep_ns(5 * kMillisecond_ns);
    }
  }
  void wait_looks(unsigned more) {
    unsigned begin = 0;
    set([&](Volume& volume) { begin = volume.asked; });
    wait([&] { return looks() >= begin + more; }, "looks");
  }
  unsigned looks() {
    const std::lock_guard lock(volume_.mutex);
    return volume_.asked;
  }
  std::string said() {
    const std::lock_guard lock(volume_.mutex);
    return said_;
  }

  const TemporaryDirectory dir_;
  std::optional<ServiceManager> manager_;  // where there is one; it stays until the promoter has ended
  Volume volume_;
  PromoterSetup setup_;
  std::unique_ptr<ScriptedNode> node_;
  std::string said_;  // with the volume's mutex
  std::thread thread_;
  std::atomic<bool> over_{false};
  Result<Output> ended_{Error{"it runs", "", 0}};
  sigset_t before_{};
};

TEST_F(PromoterTest, RefusesToBeginWithoutAWitness) {
  volume_.witness = false;
  const Result<Output> ended = run();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, kExitUsage);
  EXPECT_NE(ended.error().what.find("has no witness"), std::string::npos);
  EXPECT_NE(ended.error().action.find("[witness] into /etc/twinblock/r0.toml"), std::string::npos);
  EXPECT_EQ(done(), "");
  EXPECT_EQ(targets(), "") << "what runs is not its own";
}

TEST_F(PromoterTest, RefusesToPreferANodeThatThereIsNot) {
  setup_.rules.prefer = "gamma";
  const Result<Output> ended = run();
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, kExitUsage);
  EXPECT_NE(ended.error().what.find("'gamma'"), std::string::npos);
  EXPECT_NE(ended.error().action.find("alpha and beta"), std::string::npos);
}

TEST_F(PromoterTest, PromotesThenStartsAndAtTheEndStopsThenDemotes) {
  begin();
  wait([this] { return targets() == "stop start"; }, "the target's start");
  wait_looks(2);
  EXPECT_EQ(done(), "promote");
  const Result<Output> ended = stop();
  ASSERT_TRUE(ended.ok()) << ended.error().what;
  EXPECT_EQ(done(), "promote demote");
  EXPECT_EQ(targets(), "stop start stop");
}

TEST_F(PromoterTest, TheTargetIsStoppedWhenTheNodeIsPrimaryNoMore) {
  begin();
  wait([this] { return targets() == "stop start"; }, "the target's start");
  set([](Volume& volume) {
    volume.primary = false;
    volume.peer_connected = volume.peer_primary = true;
  });
  wait([this] { return targets() == "stop start stop"; }, "the target's stop");
  wait_looks(2);
  EXPECT_EQ(done(), "promote");
}

TEST_F(PromoterTest, ATargetThatFailsCostsTheRole) {
  std::ofstream(dir_ / "fails") << "\n";
  begin();
  wait([this] { return done() == "promote demote"; }, "the demotion");
  EXPECT_EQ(targets(), "stop start stop");
  wait_looks(10);
  EXPECT_EQ(done(), "promote demote") << "the other node is to try first";
}

TEST_F(PromoterTest, WhatIsRefusedForGoodIsNotAskedAgain) {
  volume_.refused = "for_good";
  begin();
  wait([this] { return done() == "promote"; }, "the refusal");
  wait_looks(10);
  EXPECT_EQ(done(), "promote");
  set([](Volume& volume) {
    volume.refused.clear();
    volume.state = "mended";
  });
  wait([this] { return done() == "promote promote"; }, "another try");
}

TEST_F(PromoterTest, WhatMaySucceedLaterIsTriedAgain) {
  volume_.refused = "later";
  begin();
  wait([this] { return done() == "promote promote promote"; }, "tries");
  set([](Volume& volume) { volume.refused.clear(); });
  wait([this] { return targets() == "stop start"; }, "success");
  const std::string all = said();
  EXPECT_EQ(all.find("not promoted"), all.rfind("not promoted")) << "said once:\n" << all;
}

TEST_F(PromoterTest, APromotionThatIsNotAnsweredYetIsNotCalledRefused) {
  setup_.order_ns = 100 * kMillisecond_ns;
  volume_.unanswered = "promote";
  begin();
  wait([this] { return said().find("has not answered within") != std::string::npos; }, "its words");
  wait_looks(2);
  EXPECT_NE(said().find("alpha may be promoted yet"), std::string::npos) << said();
  EXPECT_EQ(said().find("no node answers"), std::string::npos) << said();
  EXPECT_NE(said().find("twinblock status r0"), std::string::npos) << said();
  set([](Volume& volume) { volume.unanswered.clear(); });
  wait([this] { return targets() == "stop start"; }, "the target's start");
}

// Its node would be primary later on, with nobody to start what uses the volume. That it is changing its role already, as
// further orders are told, is no end of that promotion.
TEST_F(PromoterTest, APromotionThatIsNotAnsweredYetIsTakenBackAtTheEnd) {
  setup_.order_ns = 100 * kMillisecond_ns;
  volume_.unanswered = "promote";
  begin();
  wait([this] { return said().find("may be promoted yet") != std::string::npos; }, "its words");
  set([](Volume& volume) {
    volume.unanswered.clear();
    volume.refused = "later";
  });
  wait([this] { return !done().empty(); }, "a refusal");
  wait_looks(2);
  const Result<Output> ended = stop();
  EXPECT_TRUE(ended.ok()) << ended.error().what;
  EXPECT_TRUE(done().ends_with(" demote")) << done();
}

TEST_F(PromoterTest, ADemotionThatIsNotAnsweredYetIsNoReasonToStartTheNode) {
  setup_.order_ns = 100 * kMillisecond_ns;
  volume_.primary = true;
  begin();
  wait([this] { return targets() == "start"; }, "the target's start");
  set([](Volume& volume) { volume.unanswered = "demote"; });
  kill(getpid(), SIGTERM);
  wait([this] { return said().find("alpha may be demoted yet") != std::string::npos; }, "its words");
  set([](Volume& volume) { volume.unanswered.clear(); });
  thread_.join();
  EXPECT_TRUE(ended_.ok()) << ended_.error().what;
  EXPECT_EQ(said().find("tart it"), std::string::npos) << said();
}

TEST_F(PromoterTest, ANodeThatIsAwayIsWaitedFor) {
  volume_.primary = true;
  begin();
  wait([this] { return targets() == "start"; }, "the target's start");
  end_node();
  const unsigned before = looks();
  sleep_ns(500 * kMillisecond_ns);
  EXPECT_EQ(looks(), before);
  EXPECT_EQ(targets(), "start") << "its device waits for the node, too";
  begin_node();
  wait_looks(2);
  EXPECT_EQ(targets(), "start");
  EXPECT_EQ(done(), "");
  const std::string all = said();
  EXPECT_NE(all.find("alpha answers"), all.rfind("alpha answers")) << all;
}

// Its manager ends one that is never ready, and with it the target, and the node's role.
TEST_F(PromoterTest, IsReadyWhenItsNodeAnswers) {
  manager_.emplace(dir_ / "notify");
  begin();
  wait_looks(3);
  EXPECT_TRUE(manager_->heard_ready());
}

TEST_F(PromoterTest, IsReadyBeforeItsNodeAnswers) {
  manager_.emplace(dir_ / "notify");
  end_node();
  begin();
  wait([this] { return manager_->heard_ready(); }, "that it is ready");
}

TEST_F(PromoterTest, ANodeThatBeginsLaterIsFound) {
  end_node();
  begin();
  wait([this] { return said().find("no node answers") != std::string::npos; }, "its complaint");
  begin_node();
  wait([this] { return done() == "promote"; }, "the promotion");
}

}  // namespace
}  // namespace twinblock
