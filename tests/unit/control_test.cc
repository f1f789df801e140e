// Control requests against a real engine that has nobody to talk to.
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "control/status_words.h"
#include "control_support.h"

namespace twinblock {
namespace {

TEST_F(ControlTest, WhatIsNoRequestIsAnsweredWithAnError) {
  for (const std::string request : {"",
                                    " ",
                                    "{",
                                    "}",
                                    "null",
                                    "1",
                                    "\"status\"",
                                    "[]",
                                    "{}",
                                    "[{\"verb\":\"status\"}]",
                                    "{\"verb\":1}",
                                    "{\"verb\":null}",
                                    "{\"verb\":[\"status\"]}",
                                    "{\"verb\":\"status\"",
                                    "{\"verb\":\"status\"} trailing",
                                    "\xff\xfe\x00",
                                    "{\"verb\":\"\xff\"}",
                                    "{\"verb\":\"\"}",
                                    "{\"verb\":\"reboot\"}",
                                    "{\"verb\":\"STATUS\"}"}) {
    const json reply = ask(request);
    EXPECT_EQ(reply.value("ok", true), false) << request;
    EXPECT_NE(reply.value("error", ""), "") << request;
    EXPECT_TRUE(reply.contains("action")) << request;
  }
}

TEST_F(ControlTest, WrongArgumentsAreRefusedAndNothingHappens) {
  for (const std::string args :
       {"[]", "null", "1", "\"force\"", "{\"force\":1}", "{\"force\":\"true\"}", "{\"force\":null}",
        "{\"fore\":true}", "{\"force\":true,\"peer_is_dead\":true}"}) {
    EXPECT_FALSE(ask("{\"verb\":\"init\",\"args\":" + args + "}")["ok"].get<bool>()) << args;
  }
  EXPECT_EQ(engine_->status().state, VolumeState::kBlank);
}

TEST_F(ControlTest, NumbersThatAreNeededMustBeGiven) {
  const json reply = ask(R"({"verb":"sample","args":{}})");
  EXPECT_FALSE(reply["ok"].get<bool>());
  EXPECT_NE(reply["error"].get<std::string>().find("'every'"), std::string::npos);
  EXPECT_TRUE(ask(R"({"verb":"sample","args":{"every":0}})")["ok"].get<bool>());
  EXPECT_EQ(ask(R"({"verb":"latency"})")["result"]["sample_every"], 0);
  EXPECT_TRUE(ask(R"({"verb":"resync","args":{"pace":"pause"}})")["ok"].get<bool>())
      << "bytes_per_s goes with a rate only";
}

// A client may send 64 KiB of brackets.
TEST_F(ControlTest, DeepNestingDoesNotOverflowTheStack) {
  for (const std::string& open : {std::string("["), std::string("{\"a\":")}) {
    std::string deep;
    while (deep.size() + open.size() < 64 * kKiB) deep += open;
    EXPECT_FALSE(ask(deep)["ok"].get<bool>());
  }
  std::string closed(32 * kKiB - 64, '[');
  closed.append(32 * kKiB - 64, ']');
  EXPECT_FALSE(ask(closed)["ok"].get<bool>());
  EXPECT_FALSE(ask("{\"verb\":\"status\",\"args\":" + closed + "}")["ok"].get<bool>());
}

TEST_F(ControlTest, StatusHasEveryKeyOfTheProtocol) {
  const json reply = ask(R"({"verb":"status","args":{}})");
  ASSERT_TRUE(reply["ok"].get<bool>());
  const json& status = reply["result"];
  const std::map<std::string, std::vector<std::string>> keys{
      {"",
       {"volume",  "node",     "role",       "state",       "size_bytes", "data",   "status",
        "action",  "peer",     "generation", "dirty_bytes", "links",      "resync", "last_resync",
        "verify",  "disk",     "clients",    "counters",    "latency",    "nbd",    "control",
        "backing", "metadata", "config",     "pid",         "uptime_s", "promotable"}},
      {"peer", {"name", "connected", "role", "data", "error"}},
      {"generation", {"current", "base"}},
      {"resync",
       {"active", "direction", "bytes_done", "bytes_total", "percent", "rate_bytes_per_s",
        "average_bytes_per_s", "eta_s", "pace", "reason", "sent"}},
      {"intents", {"bytes", "commits", "waits"}},
      {"disk", {"engine", "error", "read_errors"}},
      {"counters",
       {"writes", "write_bytes", "reads", "read_bytes", "flushes", "zeroes", "resync_bytes",
        "peer_losses"}},
      {"latency", {"write_p50_us", "write_p99_us", "write_max_us"}},
      {"compression",
       {"mode", "level", "writes_compressed", "writes_raw", "raw_bytes", "sent_bytes", "ratio",
        "incompressible_bytes", "compress_s", "decompress_s", "decision"}}};
  for (const auto& [table, names] : keys)
    for (const std::string& name : names)
      EXPECT_TRUE((table.empty() ? status : status[table]).contains(name)) << table << "." << name;
  ASSERT_EQ(status["links"].size(), 1u);
  EXPECT_EQ(status["state"], "blank");
  EXPECT_EQ(status["role"], "secondary");
  EXPECT_EQ(status["pid"], 42);
}

TEST_F(ControlTest, InitAndPromoteAndDemoteSayWhatHappened) {
  EXPECT_FALSE(ask(R"({"verb":"promote"})")["ok"].get<bool>());
  EXPECT_TRUE(ask(R"({"verb":"init"})")["ok"].get<bool>());
  EXPECT_FALSE(ask(R"({"verb":"init"})")["ok"].get<bool>()) << "only once";
  EXPECT_TRUE(ask(R"({"verb":"promote","args":{"peer_is_dead":false}})")["ok"].get<bool>());
  EXPECT_EQ(engine_->status().role, Role::kPrimary);
  ASSERT_TRUE(engine_->clients().opened().ok());
  const json busy = ask(R"({"verb":"demote"})");
  EXPECT_FALSE(busy["ok"].get<bool>());
  EXPECT_NE(busy["action"], "");
  engine_->clients().closed();
  EXPECT_TRUE(ask(R"({"verb":"demote"})")["ok"].get<bool>());
  EXPECT_EQ(engine_->status().role, Role::kSecondary);
}

TEST_F(ControlTest, OrdersWithWrongArgumentsAreRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {R"("resolve","args":{})", "'keep'"},
      {R"("resolve")", "'keep'"},
      {R"("resolve","args":{"keep":"alpha"})", "local, peer"},
      {R"("resolve","args":{"keep":1})", "'keep'"},
      {R"("resolve","args":{"keep":"local","dry_run":"yes"})", "'dry_run'"},
      {R"("resolve","args":{"keep":"local","yes":true})", "'yes'"},
      {R"("resync","args":{})", "'pace'"},
      {R"("resync","args":{"pace":"fast"})", "pause, resume, auto, rate"},
      {R"("resync","args":{"pace":null})", "'pace'"},
      {R"("resync","args":{"pace":"rate"})", "bytes_per_s"},
      {R"("resync","args":{"pace":"rate","bytes_per_s":0})", "bytes_per_s"},
      {R"("resync","args":{"pace":"rate","bytes_per_s":-1})", "whole number"},
      {R"("resync","args":{"pace":"rate","bytes_per_s":1.5})", "whole number"},
      {R"("resync","args":{"pace":"rate","bytes_per_s":"1"})", "whole number"},
      {R"("resync","args":{"pace":"auto","bytes_per_s":4096})", "'rate' only"},
      {R"("verify","args":{})", "'order'"},
      {R"("verify","args":{"order":"fix"})", "compare, repair, stop"},
      {R"("verify","args":{"order":true})", "'order'"},
      {R"("why","args":{"order":"stop"})", "'order'"},
      {R"("continue","args":{"force":true})", "'force'"}};
  ASSERT_TRUE(ask(R"({"verb":"init"})")["ok"].get<bool>());
  const json before = ask(R"({"verb":"status"})")["result"];
  for (const auto& [request, word] : wrong) {
    const json reply = ask("{\"verb\":" + request + "}");
    EXPECT_FALSE(reply["ok"].get<bool>()) << request;
    const std::string text = reply["error"].get<std::string>();
    EXPECT_NE(text.find(word), std::string::npos) << request << ": " << text;
  }
  EXPECT_EQ(ask(R"({"verb":"status"})")["result"], before) << "nothing happened";
}

TEST_F(ControlTest, AWordInTheWitnessPlaceIsAWordAboutThePeer) {
  ASSERT_TRUE(ask(R"({"verb":"init"})")["ok"].get<bool>());
  for (const char* args : {R"({"without_witness":true})", R"({"without_witness":true,"peer_is_dead":false})"}) {
    const json reply = ask(std::string(R"({"verb":"promote","args":)") + args + "}");
    ASSERT_FALSE(reply["ok"].get<bool>());
    EXPECT_NE(reply["error"].get<std::string>().find("'peer_is_dead'"), std::string::npos) << reply;
  }
}

TEST_F(ControlTest, OrdersThatDoNotSuitTheStateSayWhatWould) {
  ASSERT_TRUE(ask(R"({"verb":"init"})")["ok"].get<bool>());
  for (const std::string request :
       {R"("continue")", R"("resolve","args":{"keep":"local","dry_run":true})",
        R"("resolve","args":{"keep":"peer"})", R"("verify","args":{"order":"compare"})"}) {
    const json reply = ask("{\"verb\":" + request + "}");
    EXPECT_FALSE(reply["ok"].get<bool>()) << request;
    EXPECT_NE(reply["error"], "") << request;
    EXPECT_NE(reply["action"], "") << request;
  }
  for (const std::string request :
       {R"("verify","args":{"order":"stop"})", R"("resync","args":{"pace":"pause"})",
        R"("resync","args":{"pace":"rate","bytes_per_s":1048576})"})
    EXPECT_TRUE(ask("{\"verb\":" + request + "}")["ok"].get<bool>()) << request;
}

TEST_F(ControlTest, WhyAnswersInSentences) {
  for (const bool initialised : {false, true}) {
    if (initialised) {
      ASSERT_TRUE(ask(R"({"verb":"init"})")["ok"].get<bool>());
    }
    const json why = ask(R"({"verb":"why"})")["result"]["why"];
    ASSERT_TRUE(why.is_array());
    ASSERT_FALSE(why.empty());
    for (const json& sentence : why) EXPECT_TRUE(sentence.get<std::string>().ends_with("."));
  }
}

// The first one's metadata is still being written when the second one comes.
TEST_F(ControlTest, ASecondInitWaitsForTheEndOfTheFirst) {
  std::vector<std::string> replies;
  const auto keep = [&replies](std::string line) { replies.push_back(std::move(line)); };
  handle_control_request(*engine_, facts_, R"({"verb":"init"})", keep);
  EXPECT_TRUE(replies.empty());
  const json second = ask(R"({"verb":"init","args":{"force":true}})");
  EXPECT_FALSE(second["ok"].get<bool>());
  EXPECT_EQ(second["action"], "try again");
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_TRUE(json::parse(replies[0])["ok"].get<bool>());
  EXPECT_TRUE(ask(R"({"verb":"init","args":{"force":true}})")["ok"].get<bool>());
}

// It has grown, and nobody has changed the file since.
TEST_F(ControlTest, WhatIsOnRecordSaysHowLargeAVolumeIs) {
  metadata::Loaded loaded;
  loaded.record.volume = "r0";
  loaded.record.node = "alpha";
  loaded.record.generations.current = 1;
  loaded.record.size_bytes = 64 * kGiB;
  loaded.record.primary = true;
  loaded.intent_words.assign(256, ~uint64_t{0});
  Engine engine({config_,
                 "alpha",
                 clock_,
                 log_,
                 network_,
                 data_,
                 metadata_,
                 workers_,
                 std::move(loaded),
                 DataFound::kSome,
                 {},
                 [] { return uint64_t{1}; },
                 kEventWords});
  ASSERT_TRUE(engine.start().ok());
  const StatusView view = engine.status();
  EXPECT_EQ(view.size_bytes, 64 * kGiB);
  EXPECT_EQ(view.file_size_bytes, kMiB);
  EXPECT_EQ(engine.worker_view().volume_bytes(), 64 * kGiB);
  EXPECT_NE(status_words(view).status.find("size = \"1MiB\", but the volume has 64GiB"), std::string::npos)
      << status_words(view).status;
}

TEST_F(ControlTest, ForcedInitNamesWhatItDestroys) {
  ASSERT_TRUE(ask(R"({"verb":"init"})")["ok"].get<bool>());
  const std::string generation =
      ask(R"({"verb":"status"})")["result"]["generation"]["current"].get<std::string>();
  const json refused = ask(R"({"verb":"init"})");
  ASSERT_FALSE(refused["ok"].get<bool>());
  EXPECT_NE(refused["error"].get<std::string>().find(generation), std::string::npos) << refused;
  EXPECT_NE(refused["action"].get<std::string>().find("--force"), std::string::npos) << refused;
  const json forced = ask(R"({"verb":"init","args":{"force":true}})");
  ASSERT_TRUE(forced["ok"].get<bool>());
  const std::string said = forced["result"]["message"].get<std::string>();
  for (const std::string& word : {std::string("volume "), generation, std::string(" since 20"),
                                  std::string("beta has nothing in common")})
    EXPECT_NE(said.find(word), std::string::npos) << word << ": " << said;
  EXPECT_NE(ask(R"({"verb":"status"})")["result"]["generation"]["current"], generation);
}

TEST_F(ControlTest, WhoIsNotOnTheLoopGetsNoFurther) {
  clock_.is_on_loop = false;
  EXPECT_DEATH((void)engine_->orders(), "entered on the loop");
  EXPECT_DEATH((void)engine_->clients(), "entered on the loop");
  EXPECT_DEATH((void)engine_->status(), "entered on the loop");
  EXPECT_DEATH((void)engine_->volume_state(), "entered on the loop");
  EXPECT_DEATH((void)engine_->is_primary(), "entered on the loop");
  EXPECT_DEATH((void)engine_->figures(), "entered on the loop");
  EXPECT_DEATH((void)engine_->events(), "entered on the loop");
  EXPECT_DEATH((void)std::as_const(*engine_).events(), "entered on the loop");
  EXPECT_DEATH((void)engine_->inside(), "entered on the loop");
  EXPECT_DEATH(engine_->shut_down(false, [] {}), "entered on the loop");
  clock_.is_on_loop = true;
}

}  // namespace
}  // namespace twinblock
