#include "twinblock/sync_text.h"

#include <gtest/gtest.h>

#include "twinblock/progress.h"
#include "twinblock/text_format.h"
#include "twinblock/text_wrap.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

using nlohmann::json;

json resyncing(double percent = 50.0) {
  json status = json::parse(R"({
    "volume": "r0", "state": "resync", "status": "beta is being brought up to date.",
    "resync": {"active": true, "direction": "source", "bytes_done": 52428800,
               "bytes_total": 104857600, "rate_bytes_per_s": 10485760, "eta_s": 5, "pace": "auto"},
    "last_resync": null})");
  status["resync"]["percent"] = percent;
  return status;
}

json alone() {
  json status = resyncing();
  status["resync"]["active"] = false;
  status["state"] = "simplex";
  status["status"] = "This node goes on alone.";
  return status;
}

json verification(uint64_t done_bytes, uint64_t differing_bytes, const std::string& ended) {
  return json{{"active", ended.empty()}, {"repair", false},
              {"ended", ended},          {"bytes_done", done_bytes},
              {"bytes_total", 1048576},  {"differing_bytes", differing_bytes},
              {"repaired_bytes", 0},     {"rate_bytes_per_s", 0},
              {"eta_s", nullptr},        {"differences", json::array()}};
}

TEST(ResyncLine, SaysThatThereIsNoEstimateUntilThereIsOne) {
  json resync{{"percent", 12.34},      {"bytes_done", 4096},       {"bytes_total", 8192},
              {"rate_bytes_per_s", 0}, {"average_bytes_per_s", 0}, {"eta_s", nullptr}};
  EXPECT_EQ(resync_line(resync), "12.3%, 4 KiB of 8 KiB, no estimate");
  resync["average_bytes_per_s"] = 2048;
  EXPECT_EQ(resync_line(resync), "12.3%, 4 KiB of 8 KiB, 2 KiB/s on average, no estimate");
}

TEST(SentLine, LeavesOutWhatDidNotHappen) {
  EXPECT_EQ(sent_line(json()), "");
  EXPECT_EQ(sent_line(json{{"data_bytes", 0}, {"zero_bytes", 0}, {"compared_bytes", 0}}), "");
  EXPECT_EQ(sent_line(json{{"data_bytes", 0}, {"zero_bytes", 0}, {"compared_bytes", 4096}}),
            "0 B sent as data, 4 KiB compared");
  EXPECT_EQ(last_resync_line(json{
                {"bytes", 8192},
                {"duration_s", 1.5},
                {"sent", {{"data_bytes", 4096}, {"zero_bytes", 4096}, {"compared_bytes", 0}}}}),
            "the last one took 1.50 s for 8 KiB: 4 KiB sent as data, 4 KiB as zeroes");
  EXPECT_EQ(last_resync_line(json{{"bytes", 8192}, {"duration_s", 1.5}, {"sent", 7}}),
            "the last one took 1.50 s for 8 KiB");
}

TEST(VerifyResult, SaysHowItEndedAndWhatDiffersWhere) {
  EXPECT_EQ(verify_result(json()), "");
  EXPECT_EQ(verify_result(verification(1048576, 0, "complete")),
            "1 MiB compared: the replicas are identical");
  json found = verification(1048576, 8192, "complete");
  found["differences"] = {{{"offset", 4096}, {"length", 4096}},
                          {{"offset", 40960}, {"length", 4096}}};
  EXPECT_EQ(verify_result(found),
            "1 MiB compared: 8 KiB differ, not repaired; first: 4 KiB at byte 4096, 4 KiB at byte "
            "40960");
  found["repaired_bytes"] = 8192;
  EXPECT_NE(verify_result(found).find("8 KiB differ, 8 KiB repaired"), std::string::npos);
  for (int i = 0; i < 10; ++i) found["differences"].push_back(found["differences"][0]);
  EXPECT_TRUE(verify_result(found).ends_with(", …")) << verify_result(found);
  EXPECT_EQ(verify_result(verification(4096, 0, "the session was lost")),
            "ended early (the session was lost), 4 KiB of 1 MiB compared: no difference found");
}

TEST(VerifyOutput, TheExitStatusTellsWhetherTheReplicasAreIdentical) {
  EXPECT_EQ(verification_output(verification(1048576, 0, "complete")).exit_status, kExitOk);
  EXPECT_EQ(verification_output(verification(1048576, 4096, "complete")).exit_status, kExitDiffer);
  EXPECT_EQ(verification_output(verification(4096, 4096, "stopped")).exit_status, kExitDiffer);
  EXPECT_EQ(verification_output(verification(4096, 0, "stopped")).exit_status, kExitRefused)
      << "not known to be identical";
}

TEST(ClockTime, HasHoursWhenThereAreAny) {
  EXPECT_EQ(clock_time(0), "0:00");
  EXPECT_EQ(clock_time(187), "3:07");
  EXPECT_EQ(clock_time(3725), "1:02:05");
  EXPECT_EQ(clock_time(360000), "100:00:00");
}

TEST(Compact, HasThreeDigitsAtTheMost) {
  EXPECT_EQ(compact_size(0), "0 B");
  EXPECT_EQ(compact_size(999), "999 B");
  EXPECT_EQ(compact_size(1023), "1.00 KiB");
  EXPECT_EQ(compact_size(4 << 20), "4 MiB");
  EXPECT_EQ(compact_size(1258291), "1.20 MiB");
  EXPECT_EQ(compact_size(1048575), "1.00 MiB");
  EXPECT_EQ(compact_size(1047527424), "999 MiB");
  EXPECT_EQ(compact_size(1 << 30), "1 GiB");
  EXPECT_EQ(compact_size(uint64_t{5000} << 40), "5000 TiB");
  EXPECT_EQ(compact_duration(80'500), "80.5 us");
  EXPECT_EQ(compact_duration(999'999), "1.00 ms");
  EXPECT_EQ(compact_duration(99'960'000), "100 ms");
  EXPECT_EQ(compact_duration(1'500'000'000), "1.50 s");
}

TEST(ProgressBar, IsAsFullAsTheResync) {
  const auto bar = [](double percent) { return progress_bar(percent, "", 10).substr(0, 12); };
  EXPECT_EQ(bar(0), "[----------]");
  EXPECT_EQ(bar(39.9), "[###-------]");
  EXPECT_EQ(bar(100), "[##########]");
  EXPECT_EQ(bar(250), "[##########]");
}

// What `use` lets a display write into a file.
template <typename Use>
std::string written(Use use) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  use(out);
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

std::string shown(const std::vector<json>& statuses, size_t columns) {
  return written([&](std::FILE* out) {
    ResyncDisplay display(out, columns);
    for (const json& status : statuses) display.show(status);
    display.finish(statuses.back());
  });
}

size_t count(const std::string& text, const std::string& word) {
  size_t found = 0;
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(ResyncDisplay, WritesALineATenthWhereThereIsNoTerminal) {
  json done = alone();
  done["state"] = "duplex";
  done["last_resync"] = {{"bytes", 4096}, {"duration_s", 2}};
  const std::string text = shown({resyncing(50), resyncing(55), resyncing(60), done}, 0);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << text;
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_NE(text.find("resync done: the last one took 2.00 s for 4 KiB\n"), std::string::npos);
}

TEST(ResyncDisplay, TellsOfAResyncThatWasTooShortToBeSeen) {
  json after = alone();
  after["state"] = "duplex";
  after["status"] = "";
  const std::string states = "state: simplex. This node goes on alone.\nstate: duplex\n";
  EXPECT_EQ(shown({alone(), after}, 0), states);
  after["last_resync"] = {{"bytes", 4096}, {"duration_s", 0.25}};
  EXPECT_EQ(shown({alone(), after}, 0),
            states + "resync done: the last one took 250.00 ms for 4 KiB\n");
}

TEST(ResyncDisplay, SaysOnceWhyNothingMoves) {
  json paused = resyncing();
  paused["resync"]["pace"] = "paused";
  for (const size_t columns : {size_t{0}, size_t{200}}) {
    const std::string text = shown({paused, paused, paused}, columns);
    EXPECT_EQ(count(text, "resync: paused by an operator"), 1u) << text;
    EXPECT_NE(text.find("twinblock resync r0 resume"), std::string::npos) << text;
  }
  std::vector<json> still(20, resyncing());
  EXPECT_EQ(count(shown(still, 0), "nothing has moved"), 1u) << shown(still, 0);
  still[15]["resync"]["bytes_done"] = 52428801;
  EXPECT_EQ(count(shown(still, 0), "nothing has moved"), 1u) << "it moves, then stands too shortly";
  for (size_t i = 0; i < still.size(); ++i) still[i]["resync"]["bytes_done"] = i;
  EXPECT_EQ(count(shown(still, 0), "nothing has moved"), 0u) << shown(still, 0);
}

TEST(ResyncDisplay, DrawsOneLineOverOnATerminalAndNoWiderThanIt) {
  const std::string text = shown({resyncing(), resyncing()}, 200);
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_NE(text.find("\r\033[Kresync [###############---------------] 50.0%"), std::string::npos);
  for (const std::string& line : {shown({resyncing()}, 40), shown({alone()}, 40)}) {
    const std::string drawn = line.substr(4, line.rfind('\r') - 4);
    EXPECT_LT(drawn.size(), 40u) << drawn;
  }
}

TEST(VerifyDisplay, WritesALineATenthWhereThereIsNoTerminal) {
  const std::string text = written([](std::FILE* out) {
    VerifyDisplay display(out, 0);
    for (const uint64_t done : {0u, 1000u, 524288u, 530000u})
      display.show(verification(done, done > 1000 ? 4096 : 0, ""));
    display.finish();
  });
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2) << text;
  EXPECT_NE(text.find("50.0%, 512 KiB of 1 MiB, no estimate; 4 KiB differ, not repaired\n"),
            std::string::npos)
      << text;
}

TEST(Wrapped, BreaksAtSpacesAndIndents) {
  EXPECT_EQ(wrapped("one two three", 7, 2), "one two\n  three");
  EXPECT_EQ(wrapped("alongword x", 4, 0), "alongword\nx");
  EXPECT_EQ(wrapped("a\nb c", 10, 1), "a\n b c");
  EXPECT_EQ(wrapped("", 10, 0), "");
}

}  // namespace
}  // namespace twinblock
