// Events as lines.
#include <gtest/gtest.h>

#include "twinblock/event_text.h"

namespace twinblock {
namespace {

using nlohmann::json;

TEST(EventLine, HasTheTimeFirstAndTheReasonLast) {
  EXPECT_EQ(event_line({{"reason", "beta was silent"},
                        {"event", "link-lost"},
                        {"number", 17},
                        {"links_up", 0},
                        {"link", "main"},
                        {"time", "2026-11-21T17:33:58.123Z"}}),
            "time:2026-11-21T17:33:58.123Z number:17 event:link-lost link:main links_up:0 "
            "reason:\"beta was silent\"");
}

TEST(EventLine, QuotesWhatWouldNotBeOneWord) {
  EXPECT_EQ(event_line({{"event", "e"}, {"local", "[fd00::1]:7700"}}),
            "event:e local:[fd00::1]:7700");
  EXPECT_EQ(event_line({{"event", "e"}, {"a", ""}}), "event:e a:\"\"");
  EXPECT_EQ(event_line({{"event", "e"}, {"a", "two\nlines \"q\" \\"}}),
            R"(event:e a:"two\nlines \"q\" \\")");
  EXPECT_EQ(event_line({{"event", "e"}, {"a", "\x1b[2J"}}), R"(event:e a:"\u001b[2J")")
      << "a terminal is not told what to do";
  EXPECT_EQ(event_line({{"event", "e"}, {"a", std::string("\0x", 2)}}), R"(event:e a:"\u0000x")");
}

TEST(EventLine, TakesWhatAnotherVersionSays) {
  EXPECT_EQ(event_line(json()), "");
  EXPECT_EQ(event_line(json::array()), "");
  EXPECT_EQ(event_line({{"event", {1, 2}}, {"flag", true}}), "event:[1,2] flag:true");
}

TEST(DroppedEvent, SaysHowMany) {
  EXPECT_EQ(event_line(dropped_event(12)), "event:dropped count:12");
}

}  // namespace
}  // namespace twinblock
