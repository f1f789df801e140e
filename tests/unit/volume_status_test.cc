// What `status` says in sentences.
#include <gtest/gtest.h>

#include "volume/status_view.h"

namespace twinblock {
namespace {

StatusView duplex(const std::vector<std::pair<std::string, std::string>>& links) {
  StatusView view;
  view.status = "Fine.";
  view.peer.connected = true;
  for (const auto& [state, error] : links) {
    StatusView::Link link;
    link.name = "link" + std::to_string(view.links.size() + 1);
    link.state = state;
    link.last_error = error;
    view.links.push_back(link);
  }
  return view;
}

std::string explained(StatusView view) {
  explain_links(view);
  return view.status;
}

TEST(LinksInStatus, OneThatIsMissingIsNamedWithTheReason) {
  StatusView view = duplex({{"up", ""}, {"down", "connection refused"}});
  explain_links(view);
  EXPECT_EQ(view.status, "Fine. It goes on without link link2 (connection refused).");
  EXPECT_NE(view.action, "");
  EXPECT_EQ(explained(duplex({{"refused", "no such session"}, {"up", ""}, {"damped", ""}})),
            "Fine. It goes on without link link1 (no such session); link3.");
}

TEST(LinksInStatus, AnotherActionIsNotReplaced) {
  StatusView view = duplex({{"up", ""}, {"down", ""}});
  view.action = "Do this first.";
  explain_links(view);
  EXPECT_EQ(view.action, "Do this first.");
}

TEST(LinksInStatus, NothingIsSaidOfLinksThatAreAsTheyShouldBe) {
  EXPECT_EQ(explained(duplex({{"up", "an old error"}, {"disabled", "disabled by an operator"}})),
            "Fine.");
  EXPECT_EQ(explained(duplex({{"up", ""}, {"connecting", ""}})), "Fine.") << "give it a moment";
  StatusView alone = duplex({{"down", "connection refused"}});
  alone.peer.connected = false;
  EXPECT_EQ(explained(alone), "Fine.") << "the loss of the peer is told by itself";
}

TEST(BringBack, APeerThatAnswersNeedNotBeStarted) {
  EXPECT_EQ(bring_back("beta", false), "Start twinblockd on beta or mend the link");
  EXPECT_EQ(bring_back("beta", true).find("Start"), std::string::npos);
  EXPECT_NE(bring_back("beta", true).find("The address of beta answers"), std::string::npos);
}

}  // namespace
}  // namespace twinblock
