// The verbs `link` and `compression` of the control protocol.
#include <gtest/gtest.h>

#include "control_support.h"

namespace twinblock {
namespace {

using LinkRequest = ControlTest;

TEST_F(LinkRequest, EveryLinkHasEveryKeyOfTheProtocol) {
  const json listed = ask(R"({"verb":"link","args":{"action":"list"}})");
  ASSERT_TRUE(listed["ok"].get<bool>());
  const json& links = listed["result"]["links"];
  ASSERT_EQ(links.size(), 1u);
  for (const char* name :
       {"name", "state", "local", "peer", "round_trip_us", "nominal_bits_per_s",
        "measured_bytes_per_s", "in_bytes_per_s", "out_bytes_per_s", "in_bytes", "out_bytes",
        "in_flight_bytes", "failovers", "silence_limit_ms",
        "silence_limit_raised", "last_error", "retry_in_ms"})
    EXPECT_TRUE(links[0].contains(name)) << name;
  EXPECT_EQ(links[0]["name"], "main");
  EXPECT_EQ(links[0]["local"], "10.0.0.1:1");
  EXPECT_EQ(links[0]["peer"], "10.0.0.2:1");
  EXPECT_NE(links[0]["state"], "up") << "there is nobody to talk to";
  EXPECT_EQ(ask(R"({"verb":"status"})")["result"]["links"], links);
}

TEST_F(LinkRequest, WrongArgumentsAreRefusedByNameAndNothingHappens) {
  const std::string ends = R"("addresses":{"alpha":"10.1.0.1:1","beta":"10.1.0.2:1"})";
  const std::vector<std::pair<std::string, std::string>> wrong{
      {R"({})", "'action'"},
      {R"({"action":"cut"})", "list, add, remove, enable, disable"},
      {R"({"action":"list","name":"main"})", "no further arguments"},
      {R"({"action":"list","rate":"1Gbit"})", "no further arguments"},
      {R"({"action":"add"})", "needs argument 'name'"},
      {R"({"action":"remove"})", "needs argument 'name'"},
      {R"({"action":"remove","name":7})", "'name' must be a text"},
      {R"({"action":"remove","name":""})", "can't be the name"},
      {R"({"action":"remove","name":"a/b"})", "can't be the name"},
      {R"({"action":"remove","name":"main","rate":"1Gbit"})", "'add' only"},
      {R"({"action":"enable","name":"main",)" + ends + "}", "'add' only"},
      {R"({"action":"add","name":"b","addresses":"10.1.0.1:1"})", "an object of texts"},
      {R"({"action":"add","name":"b","addresses":["10.1.0.1:1"]})", "an object of texts"},
      {R"({"action":"add","name":"b","addresses":{"alpha":1,"beta":2}})", "an object of texts"},
      {R"({"action":"add","name":"b","addresses":{"alpha":"10.1.0.1:1"}})", "beta"},
      {R"({"action":"add","name":"b","addresses":{"alpha":"x:1","beta":"y:1"}})", "'x:1'"},
      {R"({"action":"add","name":"b","addresses":{"gamma":"10.1.0.1:1"}})", "'gamma'"},
      {R"({"action":"add","name":"b","rate":"fast",)" + ends + "}", "'fast'"},
      {R"({"action":"add","name":"b","rate":1,)" + ends + "}", "'rate' must be a text"},
      {R"({"action":"add","name":"b","address":"10.1.0.1:1"})", "no argument 'address'"}};
  const json before = ask(R"({"verb":"link","args":{"action":"list"}})");
  for (const auto& [args, word] : wrong) {
    const json reply = ask(R"({"verb":"link","args":)" + args + "}");
    EXPECT_FALSE(reply["ok"].get<bool>()) << args;
    const std::string text = reply["error"].get<std::string>();
    EXPECT_NE(text.find(word), std::string::npos) << args << ": " << text;
  }
  EXPECT_EQ(ask(R"({"verb":"link","args":{"action":"list"}})"), before);
}

TEST_F(LinkRequest, ChangesThatCantBeMadeSayWhatToDo) {
  for (const char* args :
       {R"({"action":"remove","name":"main"})", R"({"action":"remove","name":"nothing"})",
        R"({"action":"enable","name":"nothing"})", R"({"action":"add","name":"nothing"})",
        R"({"action":"disable","name":"main"})"}) {
    const json reply = ask(std::string(R"({"verb":"link","args":)") + args + "}");
    EXPECT_FALSE(reply["ok"].get<bool>()) << args;
    EXPECT_NE(reply["error"], "") << args;
    EXPECT_NE(reply["action"], "") << args;
  }
}

using CompressionRequest = ControlTest;

TEST_F(CompressionRequest, WithoutArgumentsItSaysWhatItIs) {
  for (const char* request : {R"({"verb":"compression"})", R"({"verb":"compression","args":{}})"}) {
    const json reply = ask(request);
    ASSERT_TRUE(reply["ok"].get<bool>()) << reply;
    EXPECT_EQ(reply["result"]["compression"]["mode"], "off");
    EXPECT_EQ(reply["result"]["compression"], ask(R"({"verb":"status"})")["result"]["compression"]);
  }
}

TEST_F(CompressionRequest, WhatIsNotNamedStaysAsItIs) {
  const auto setting = [this] {
    const json now = ask(R"({"verb":"compression"})")["result"]["compression"];
    return now["mode"].get<std::string>() + std::to_string(now["level"].get<int>());
  };
  const std::vector<std::pair<std::string, std::string>> orders{
      {R"({"level":3})", "off3"},
      {R"({"mode":"auto"})", "auto3"},
      {R"({"mode":"on","level":19})", "on19"},
      {R"({"level":1})", "on1"},
      {R"({"mode":"off"})", "off1"}};
  for (const auto& [args, expected] : orders) {
    const json reply = ask(R"({"verb":"compression","args":)" + args + "}");
    ASSERT_TRUE(reply["ok"].get<bool>()) << reply;
    EXPECT_NE(reply["result"]["message"], "");
    EXPECT_EQ(setting(), expected) << args;
  }
}

TEST_F(CompressionRequest, WrongArgumentsAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {R"({"mode":"yes"})", "off, on, auto"},
      {R"({"mode":true})", "off, on, auto"},
      {R"({"mode":null})", "'mode'"},
      {R"({"level":0})", "no level 0"},
      {R"({"level":20})", "no level 20"},
      {R"({"level":-1})", "whole number"},
      {R"({"level":1.5})", "whole number"},
      {R"({"level":"3"})", "whole number"},
      {R"({"mode":"on","levle":3})", "'levle'"},
      {R"({"level":4294967297})", "no level"},
      {R"({"level":18446744073709551615})", "no level"}};
  for (const auto& [args, word] : wrong) {
    const json reply = ask(R"({"verb":"compression","args":)" + args + "}");
    EXPECT_FALSE(reply["ok"].get<bool>()) << args;
    const std::string text = reply["error"].get<std::string>();
    EXPECT_NE(text.find(word), std::string::npos) << args << ": " << text;
  }
  EXPECT_EQ(ask(R"({"verb":"compression"})")["result"]["compression"]["mode"], "off");
}

}  // namespace
}  // namespace twinblock
