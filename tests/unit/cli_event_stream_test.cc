#include "twinblock/event_stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "scripted_node.h"
#include "temporary_directory.h"
#include "twinblock/exit_status.h"

namespace twinblock {
namespace {

using nlohmann::json;

// A node that remembers so many events, and answers two at a time.
struct Remembering {
  std::string instance = "one";
  std::atomic<uint64_t> last{0};
  std::atomic<unsigned> requests{0};

  std::optional<std::string> answer(const std::string& verb, const json& args) {
    EXPECT_EQ(verb, "events");
    const uint64_t since = args.value("since", uint64_t{0});
    if (args.value("wait", false) && since == last) return std::nullopt;
    ++requests;
    json events = json::array();
    for (uint64_t number = since + 1; number <= std::min<uint64_t>(last, since + 2); ++number)
      events.push_back({{"number", number}, {"event", "state"}});
    return ScriptedNode::good(
        {{"instance", instance}, {"last", uint64_t{last}}, {"dropped", 0}, {"events", events}});
  }
  std::unique_ptr<ScriptedNode> node(const std::string& path) {
    return std::make_unique<ScriptedNode>(
        path, [this](const std::string& verb, const json& args) { return answer(verb, args); });
  }
};

// Until there are so many; fails when that takes for ever.
std::vector<uint64_t> numbers(EventStream& stream, size_t count, bool* restarted = nullptr) {
  std::vector<uint64_t> found;
  for (int i = 0; i < 6000 && found.size() < count; ++i) {
    bool again = false;
    const Result<std::vector<json>> events = stream.take(again);
    if (restarted != nullptr) *restarted = *restarted || again;
    if (events)
      for (const json& event : events.value()) found.push_back(event["number"]);
    pollfd polled{stream.fd(), POLLIN, 0};
    (void)poll(&polled, 1, 10);
  }
  EXPECT_EQ(found.size(), count);
  return found;
}

TEST(EventStream, TellsWhatWasAndWhatComes) {
  const TemporaryDirectory dir;
  Remembering events;
  events.last = 5;
  const auto node = events.node(dir / "r0.ctl");
  EventStream stream(dir / "r0.ctl");
  EXPECT_EQ(numbers(stream, 5), (std::vector<uint64_t>{1, 2, 3, 4, 5}));
  events.last = 6;
  EXPECT_EQ(numbers(stream, 1), std::vector<uint64_t>{6});
}

// The node holds the request back: nothing is asked meanwhile.
TEST(EventStream, WaitsWithoutAsking) {
  const TemporaryDirectory dir;
  Remembering events;
  events.last = 1;
  const auto node = events.node(dir / "r0.ctl");
  EventStream stream(dir / "r0.ctl");
  (void)numbers(stream, 1);
  const unsigned before = events.requests;
  bool restarted = false;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(stream.take(restarted).ok());
    EXPECT_GE(stream.fd(), 0);
  }
  EXPECT_EQ(events.requests, before);
}

// Its numbers begin with 1 again, and it may have as many of them already as the one before had.
TEST(EventStream, AnotherProcessIsHeardFromItsBegin) {
  const TemporaryDirectory dir;
  Remembering events;
  events.last = 2;
  auto node = events.node(dir / "r0.ctl");
  EventStream stream(dir / "r0.ctl");
  (void)numbers(stream, 2);
  node.reset();
  bool restarted = false;
  const Result<std::vector<json>> away = stream.take(restarted);
  ASSERT_FALSE(away.ok());
  EXPECT_EQ(away.error().code, kExitUnreachable);
  EXPECT_EQ(stream.fd(), -1);
  EXPECT_FALSE(restarted);
  events.instance = "two";
  node = events.node(dir / "r0.ctl");
  EXPECT_EQ(numbers(stream, 2, &restarted), (std::vector<uint64_t>{1, 2}));
  EXPECT_TRUE(restarted);
}

TEST(EventStream, ARefusalIsAnError) {
  const TemporaryDirectory dir;
  const ScriptedNode node(dir / "r0.ctl", [](const std::string&, const json&) {
    return ScriptedNode::refusal("too many wait", "");
  });
  EventStream stream(dir / "r0.ctl");
  bool restarted = false;
  for (int i = 0; i < 6000; ++i) {
    const Result<std::vector<json>> events = stream.take(restarted);
    if (!events) {
      EXPECT_EQ(events.error().what, "too many wait");
      return;
    }
    pollfd polled{stream.fd(), POLLIN, 0};
    (void)poll(&polled, 1, 10);
  }
  FAIL() << "no answer";
}

}  // namespace
}  // namespace twinblock
