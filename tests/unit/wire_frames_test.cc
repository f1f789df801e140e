// One struct for each frame: what it carries comes back, what it may not carry is refused, and
// PROTOCOL.md has the same fields in the same slots.
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <vector>

#include "wire/codec.h"
#include "wire/frame_checks.h"

namespace twinblock::wire {
namespace {

template <typename... Frames, typename Use>
void each_frame(FrameList<Frames...>, Use&& use) {
  (use(static_cast<const Frames*>(nullptr)), ...);
}

template <typename Slot>
std::string slot_name(Slot FrameHeader::*slot) {
  if constexpr (std::is_same_v<Slot, uint32_t>) {
    return "status";
  } else {
    if (slot == &FrameHeader::sequence) return "sequence";
    if (slot == &FrameHeader::offset) return "offset";
    if (slot == &FrameHeader::length) return "length";
    return slot == &FrameHeader::aux0 ? "aux0" : "aux1";
  }
}

using Rows = std::vector<std::pair<std::string, std::string>>;  // field, slot

TEST(Frames, ComeBackAsTheyWere) {
  each_frame(AllFrames{}, []<typename Frame>(const Frame*) {
    FrameHeader header = to_header(Frame{});
    uint64_t value = 1;  // another one in each field; small, so that most have room for it
    each_field<Frame>([&](const auto& each) {
      if constexpr (kIsFlag<std::remove_cvref_t<decltype(each)>>)
        header.flags |= each.bit;
      else
        header.*each.slot = static_cast<uint32_t>(std::min(each.most, value++));
    });
    const FrameHeader again = to_header(frame_as<Frame>(header));
    EXPECT_EQ(std::memcmp(&again, &header, sizeof header), 0) << Frame::kKind.name;
  });
}

TEST(Frames, NoSlotMeansTwoThings) {
  each_frame(AllFrames{}, []<typename Frame>(const Frame*) {
    std::map<std::string, int> uses;
    each_field<Frame>([&](const auto& each) {
      if constexpr (kIsFlag<std::remove_cvref_t<decltype(each)>>)
        ++uses["flag " + std::to_string(each.bit)];
      else
        ++uses[slot_name(each.slot)];
    });
    for (const auto& [slot, count] : uses) EXPECT_EQ(count, 1) << Frame::kKind.name << " " << slot;
  });
}

// Of the frames whose fields' own bounds are all that binds them.
TEST(Frames, AValueThatAFieldCantHaveIsRefusedByName) {
  constexpr uint64_t kVolume = 1024 * 1024;
  size_t refused = 0;
  each_frame(AllFrames{}, [&]<typename Frame>(const Frame*) {
    each_field<Frame>([&](const auto& each) {
      if constexpr (!kIsFlag<std::remove_cvref_t<decltype(each)>>) {
        const uint64_t outside[] = {each.most + 1, each.least - 1};
        for (const uint64_t value : outside) {
          if (value >= each.least && value <= each.most) continue;
          if (each.least == 0 && value == ~uint64_t{0}) continue;  // there is none below
          FrameHeader header = to_header(Frame{});
          header.*each.slot = static_cast<std::remove_cvref_t<decltype(header.*each.slot)>>(value);
          header.payload_bytes = Frame::kKind.payload_min;
          const std::string problem = header_problem(header, kVolume);
          EXPECT_EQ(problem.find(Frame::kKind.name), 0u) << problem;
          EXPECT_NE(problem.find(std::string("whose ") + each.name + " is "), std::string::npos)
              << Frame::kKind.name << ": " << problem;
          ++refused;
        }
      }
    });
  });
  EXPECT_GE(refused, 10u) << "verdict, role, mode, level, full, and each errno value";
}

// A bound that is lost would be looked at by nobody: these are the protocol's, in numbers.
TEST(Frames, HaveTheBoundsThatTheProtocolSays) {
  using Bounds = std::map<std::string, std::pair<uint64_t, uint64_t>>;
  Bounds bounds;
  each_frame(AllFrames{}, [&]<typename Frame>(const Frame*) {
    each_field<Frame>([&](const auto& each) {
      if constexpr (!kIsFlag<std::remove_cvref_t<decltype(each)>>) {
        if (each.least != 0 || each.most != ~uint64_t{0})
          bounds[std::string(Frame::kKind.name) + ": " + each.name] = {each.least, each.most};
      }
    });
  });
  EXPECT_EQ(bounds, (Bounds{{"refuse: error", {0, 4095}},
                            {"verdict: verdict", {1, 26}},
                            {"join: renews", {0, 1}},
                            {"ack: error", {0, 4095}},
                            {"heartbeat: full", {0, 1}},
                            {"role: primary", {0, 1}},
                            {"promote-answer: error", {0, 4095}},
                            {"compression: mode", {0, 2}},
                            {"compression: level", {1, 19}},
                            {"probe-data: last", {0, 1}},
                            {"grow: size", {uint64_t{64} << 10, uint64_t{64} << 40}},
                            {"snapshot: step", {1, 4}}}));
}

// … and neither would a payload's. Who takes a payload for a struct relies on its length.
TEST(Frames, HaveThePayloadBoundsThatTheProtocolSays) {
  using Bounds = std::map<std::string, std::pair<uint32_t, uint32_t>>;
  const auto exactly = [](uint32_t bytes) { return std::pair{bytes, bytes}; };
  const auto up_to = [](uint32_t bytes) { return std::pair{uint32_t{0}, bytes}; };
  Bounds expected{{"hello", exactly(sizeof(HelloPayload))},
                  {"refuse", up_to(kTextBytesMax)},
                  {"data", up_to(limits::kFramePayloadBytesMax)},
                  {"ack", up_to(limits::kFramePayloadBytesMax)},
                  {"promote-answer", up_to(kTextBytesMax)},
                  {"generation", exactly(sizeof(GenerationPayload))},
                  {"goodbye", up_to(kTextBytesMax)},
                  {"dirty", up_to(limits::kMapChunkBitsBytes)},
                  {"link-change", exactly(sizeof(LinkChangePayload))},
                  {"settings", exactly(sizeof(SettingsPayload))},
                  {"probe-host", exactly(sizeof(ProbeHostPayload))},
                  {"probe-ask", up_to(limits::kProbePayloadBytesMax)},
                  {"probe-data", up_to(limits::kProbePayloadBytesMax)},
                  {"probe-report", up_to(limits::kProbeIntervalsMax * 4)},
                  {"snapshot", {1, limits::kSnapshotNameBytesMax}}};
  for (const char* none :
       {"challenge", "verdict", "join", "flush", "read", "digest", "times", "heartbeat", "role", "promote-ask",
        "progress", "compression", "retire", "retired", "probe", "probe-answer", "grow"})
    expected[none] = {0, 0};
  Bounds bounds;
  each_frame(AllFrames{}, [&]<typename Frame>(const Frame*) {
    bounds[Frame::kKind.name] = {Frame::kKind.payload_min, Frame::kKind.payload_max};
    const auto is_refused = [](uint32_t payload_bytes) {
      FrameHeader header = to_header(Frame{});
      header.payload_bytes = payload_bytes;
      return header_problem(header, kMiB).find("with a payload of ") != std::string::npos;
    };
    const auto [least, most] = expected[Frame::kKind.name];
    EXPECT_FALSE(is_refused(least)) << Frame::kKind.name;
    EXPECT_FALSE(is_refused(most)) << Frame::kKind.name;
    EXPECT_TRUE(is_refused(most + 1)) << Frame::kKind.name;
    EXPECT_TRUE(is_refused(~uint32_t{0})) << Frame::kKind.name;
    if (least > 0) {
      EXPECT_TRUE(is_refused(least - 1)) << Frame::kKind.name;
    }
  });
  EXPECT_EQ(bounds, expected) << "each frame has its row";
}

TEST(Frames, AStepThatASnapshotDoesNotHaveIsRefused) {
  FrameHeader header = to_header(SnapshotFrame{});
  header.payload_bytes = 1;
  for (uint64_t step = 1; step <= 4; ++step) {
    header.offset = step;
    EXPECT_EQ(header_problem(header, 4096), "") << step;
  }
  for (const uint64_t step : {0, 5, 7, 257}) {  // the last one's lowest byte is a step
    header.offset = step;
    EXPECT_NE(header_problem(header, 4096).find("snapshot frame whose step is "), std::string::npos) << step;
  }
}

// The answer has room for so many whole blocks.
TEST(Frames, ADigestIsOfWholeBlocks) {
  constexpr uint64_t kBlock = limits::kBlockBytes;
  for (const bool hole : {false, true}) {
    DigestFrame digest{.request = 1, .offset_bytes = kBlock, .length_bytes = kBlock, .hole = hole};
    EXPECT_EQ(header_problem(to_header(digest), 1024 * 1024), "");
    for (const uint64_t length_bytes : {uint64_t{1}, uint64_t{512}, kBlock - 1, kBlock + 16}) {
      digest.length_bytes = length_bytes;
      EXPECT_EQ(header_problem(to_header(digest), 1024 * 1024), "digest frame of half a block") << length_bytes;
    }
    digest.length_bytes = kBlock;
    digest.offset_bytes = 512;
    EXPECT_EQ(header_problem(to_header(digest), 1024 * 1024), "digest frame of half a block");
  }
}

TEST(Frames, TheChecksumOfAPayloadThatThereIsNotIsRefused) {
  FrameHeader header = to_header(ProgressFrame{5, 5});
  EXPECT_EQ(header_problem(header, 4096), "");
  header.payload_crc = 1;
  EXPECT_NE(header_problem(header, 4096).find("checksum"), std::string::npos);
}

TEST(Frames, MoreDoneThanThereIsIsRefused) {
  EXPECT_EQ(header_problem(to_header(ProgressFrame{5, 5}), 4096), "");
  EXPECT_NE(header_problem(to_header(ProgressFrame{6, 5}), 4096), "");
}

// What takes them copies whole numbers.
TEST(Frames, AProbesReportHasWholeNumbersOnly) {
  FrameHeader header = to_header(ProbeReportFrame{.received_bytes = 5, .passed_ns = 5});
  for (uint32_t bytes = 0; bytes <= 4 * sizeof(uint32_t); ++bytes) {
    header.payload_bytes = bytes;
    const bool whole = bytes % sizeof(uint32_t) == 0;
    EXPECT_EQ(header_problem(header, 4096), whole ? "" : "probe-report frame with a part of a number") << bytes;
  }
}

TEST(Frames, AnAnswerOnTheControlStreamHasNoTimes) {
  for (const AckFrame ack : {AckFrame{.request = 7, .sent_ns = 1}, AckFrame{.request = 7, .held_ns = 1},
                             AckFrame{.request = 7, .disk_ns = 1}}) {
    FrameHeader header = to_header(ack);
    EXPECT_EQ(header_problem(header, 4096), "");
    set_order(header, 3);
    EXPECT_NE(header_problem(header, 4096).find("ack frame with a field that it does not have"), std::string::npos);
  }
  FrameHeader header = to_header(AckFrame{.request = 7, .error = 5});
  set_order(header, 3);
  EXPECT_EQ(header_problem(header, 4096), "");
}

template <typename Frame, typename Payload>
std::string problem_with(const Payload& payload) {
  return payload_problem(to_header(Frame{}), bytes_of(payload));
}

TEST(Payloads, OfAGenerationSayOneThingThatThisVersionKnows) {
  for (uint32_t flags = 0; flags < 32; ++flags) {
    GenerationPayload payload{};
    payload.flags = flags;
    const bool good = flags == 1 || flags == 2 || flags == 4;
    EXPECT_EQ(problem_with<GenerationFrame>(payload).empty(), good) << flags;
  }
  GenerationPayload payload{};
  payload.flags = kGenerationConsistent;
  payload.reserved = 1;
  EXPECT_NE(problem_with<GenerationFrame>(payload).find("generation frame whose reserved"),
            std::string::npos);
}

TEST(Payloads, OfALinkChangeHaveNothingThatThisVersionDoesNotKnow) {
  LinkChangePayload good{};
  good.change = 1;
  set_name(good.name, "main");
  EXPECT_EQ(problem_with<LinkChangeFrame>(good), "");
  const std::vector<std::pair<const char*, std::function<void(LinkChangePayload&)>>> cases{
      {"change is 0", [](auto& p) { p.change = 0; }},
      {"change is 5", [](auto& p) { p.change = 5; }},
      {"reserved", [](auto& p) { p.reserved = 1; }},
      {"does not end", [](auto& p) { std::memset(p.name, 'x', sizeof p.name); }},
      {"does not end", [](auto& p) { p.address[1][7] = 'x'; }}};
  for (const auto& [what, change] : cases) {
    LinkChangePayload bad = good;
    change(bad);
    const std::string problem = problem_with<LinkChangeFrame>(bad);
    EXPECT_NE(problem.find(what), std::string::npos) << what << ": " << problem;
  }
}

TEST(Payloads, OfSettingsHaveNothingThatThisVersionDoesNotKnow) {
  SettingsPayload good{};
  good.peer_timeout_ns = good.disk_timeout_ns = limits::kTimeoutMin_ns;
  good.link_timeout_ns = limits::kLinkTimeoutMax_ns;
  good.level = 1;
  good.links = 1;
  set_name(good.link[0].name, "main");
  EXPECT_EQ(problem_with<SettingsFrame>(good), "");
  const std::vector<std::pair<const char*, std::function<void(SettingsPayload&)>>> cases{
      {"peer_timeout is 0", [](auto& p) { p.peer_timeout_ns = 0; }},
      {"peer_timeout is 10 min 0 s (200.00 ms to 10 min 0 s)", [](auto& p) { p.peer_timeout_ns = limits::kTimeoutMax_ns + 1; }},
      {"disk_timeout is", [](auto& p) { p.disk_timeout_ns = limits::kTimeoutMin_ns - 1; }},
      {"disk_timeout is", [](auto& p) { p.disk_timeout_ns = ~uint64_t{0}; }},
      {"link_timeout is", [](auto& p) { p.link_timeout_ns = limits::kLinkTimeoutMin_ns - 1; }},
      {"link_timeout is", [](auto& p) { p.link_timeout_ns = limits::kLinkTimeoutMax_ns + 1; }},
      {"on_peer_loss is 2", [](auto& p) { p.on_peer_loss = 2; }},
      {"compression is 3", [](auto& p) { p.compression = 3; }},
      {"level is 20", [](auto& p) { p.level = 20; }},
      {"9 links", [](auto& p) { p.links = 9; }},
      {"witness", [](auto& p) { p.witness = 3; }},
      {"reserved", [](auto& p) { p.reserved[2] = 1; }},
      {"behind the last one", [](auto& p) { p.link[1].rate_bits_per_s = 1; }},
      {"does not end", [](auto& p) { p.link[0].name[40] = 'x'; }}};
  for (const auto& [what, change] : cases) {
    SettingsPayload bad = good;
    change(bad);
    const std::string problem = problem_with<SettingsFrame>(bad);
    EXPECT_NE(problem.find(what), std::string::npos) << what << ": " << problem;
  }
}

// It becomes part of a file's name.
TEST(Payloads, OfASnapshotAreANameThatASnapshotMayHave) {
  const auto problem = [](std::string_view name) {
    return payload_problem(to_header(SnapshotFrame{}), text_bytes(name));
  };
  for (const char* good : {"x", "before-upgrade_2.5"}) EXPECT_EQ(problem(good), "") << good;
  for (const char* bad : {"", "../x", "a/b", "/x", "..", ".x", "-x", "x.part", "a b", "a\n"})
    EXPECT_EQ(problem(bad), "snapshot frame with a name that no snapshot has") << bad;
  EXPECT_NE(problem(std::string_view("a\0b", 3)), "");
  EXPECT_NE(problem(std::string(limits::kSnapshotNameBytesMax + 1, 'a')), "");
}

// The tables of PROTOCOL.md by frame: "name (type, stream)".
std::map<std::string, Rows> tables() {
  std::ifstream file(TWINBLOCK_PROTOCOL);
  std::map<std::string, Rows> all;
  std::string title;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) title = line.starts_with("### ") ? line.substr(4) : "";
    if (title.find(" (") == std::string::npos) continue;
    Rows& rows = all[title];
    if (!line.starts_with("| ") || line.starts_with("| field ")) continue;
    const size_t end = line.find(" | "), slot_end = line.find(" | ", end + 3);
    rows.emplace_back(line.substr(2, end - 2), line.substr(end + 3, slot_end - end - 3));
  }
  return all;
}

TEST(Protocol, HasATableOfEachFrameAndNoOther) {
  static const std::map<Stream, std::string> streams{{Stream::kHandshake, "handshake"},
                                                     {Stream::kUnordered, "unordered"},
                                                     {Stream::kOrdered, "ordered"},
                                                     {Stream::kEither, "as its request"}};
  std::map<std::string, Rows> told = tables();
  each_frame(AllFrames{}, [&]<typename Frame>(const Frame*) {
    const std::string title = std::string(Frame::kKind.name) + " (" +
                              std::to_string(static_cast<int>(Frame::kKind.type)) + ", " +
                              streams.at(Frame::kKind.stream) + ")";
    ASSERT_TRUE(told.contains(title)) << title;
    Rows rows;
    each_field<Frame>([&](const auto& each) {
      if constexpr (kIsFlag<std::remove_cvref_t<decltype(each)>>)
        rows.emplace_back(each.name, "flag " + std::to_string(each.bit));
      else
        rows.emplace_back(each.name, slot_name(each.slot));
    });
    EXPECT_EQ(told[title], rows) << title;
    told.erase(title);
  });
  for (const auto& [title, rows] : told) ADD_FAILURE() << "no frame: " << title;
}

// They come from the wire, and are shown in the log, in events and by `status`.
TEST(Names, MoveNoCursor) {
  const char field[kNameBytes] = "a\x1b[2J\nb";
  EXPECT_EQ(get_name(field), "a?[2J?b");
}

}  // namespace
}  // namespace twinblock::wire
