// How a frame's struct (frames.h) says where its fields lie in the common header, and which
// values they may have; and what follows from that for every frame: the header of a struct, the struct of a
// header, and what is wrong with a header. Pure; any thread.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>

#include "wire/frame_format.h"

namespace twinblock::wire {

// One field of a frame, in one slot of the header.
template <typename Frame, typename Value, typename Slot>
struct Field {
  const char* name;
  Value Frame::*value;
  Slot FrameHeader::*slot;
  uint64_t least;
  uint64_t most;
};
template <typename Frame, typename Value, typename Slot>
constexpr Field<Frame, Value, Slot> field(const char* name, Value Frame::*value,
                                          Slot FrameHeader::*slot, uint64_t least = 0,
                                          uint64_t most = ~uint64_t{0}) {
  return {name, value, slot, least, most};
}

// One that is a bit of FrameHeader::flags.
template <typename Frame>
struct Flag {
  const char* name;
  bool Frame::*value;
  FrameFlag bit;
};
template <typename Frame>
constexpr Flag<Frame> flag(const char* name, bool Frame::*value, FrameFlag bit) {
  return {name, value, bit};
}

// (Constants, so that of a frame's checks only those are compiled that can fail.)
template <typename Frame>
inline constexpr auto kFieldsOf = Frame::fields();

// Calls `use` with each Field and each Flag of `Frame`.
template <typename Frame, typename Use>
constexpr void each_field(Use&& use) {
  std::apply([&use](const auto&... each) { (use(each), ...); }, kFieldsOf<Frame>);
}

template <typename T>
constexpr bool kIsFlag = false;
template <typename Frame>
constexpr bool kIsFlag<Flag<Frame>> = true;

template <typename Frame>
FrameHeader to_header(const Frame& frame) {
  FrameHeader header{};
  header.type = static_cast<uint8_t>(Frame::kKind.type);
  each_field<Frame>([&](const auto& each) {
    if constexpr (kIsFlag<std::remove_cvref_t<decltype(each)>>)
      header.flags |= frame.*each.value ? each.bit : 0;
    else
      header.*each.slot =
          static_cast<std::remove_cvref_t<decltype(header.*each.slot)>>(frame.*each.value);
  });
  return header;
}

// Of a header that check_header() has passed, and that is of this type.
template <typename Frame>
Frame frame_as(const FrameHeader& header) {
  Frame frame;
  each_field<Frame>([&](const auto& each) {
    if constexpr (kIsFlag<std::remove_cvref_t<decltype(each)>>)
      frame.*each.value = (header.flags & each.bit) != 0;
    else
      frame.*each.value =
          static_cast<std::remove_cvref_t<decltype(frame.*each.value)>>(header.*each.slot);
  });
  return frame;
}

// The bits of FrameHeader::flags that a frame of this kind may have.
template <typename Frame>
constexpr uint8_t flags_of() {
  uint8_t flags = Frame::kKind.stream == Stream::kOrdered || Frame::kKind.stream == Stream::kEither
                      ? kFlagControl
                      : 0;
  each_field<Frame>([&flags](const auto& each) {
    if constexpr (kIsFlag<std::remove_cvref_t<decltype(each)>>) flags |= each.bit;
  });
  return flags;
}

// The same header without what a frame of this kind does not have, flags apart.
template <typename Frame>
FrameHeader used_fields(const FrameHeader& header) {
  FrameHeader used = header;
  used.sequence = used.offset = used.length = used.aux0 = used.aux1 = 0;
  used.status = 0;
  each_field<Frame>([&](const auto& each) {
    if constexpr (!kIsFlag<std::remove_cvref_t<decltype(each)>>)
      used.*each.slot = header.*each.slot;
  });
  if ((header.flags & kFlagControl) != 0) used.aux1 = header.aux1;
  return used;
}

// As "whose role is 7 (0 to 1)".
std::string value_words(const char* name, uint64_t value, uint64_t least, uint64_t most);

// A field with a value that it can't have; empty: none.
template <typename Frame>
std::string value_problem(const FrameHeader& header) {
  std::string problem;
  each_field<Frame>([&](const auto& each) {
    if constexpr (!kIsFlag<std::remove_cvref_t<decltype(each)>>) {
      const uint64_t value = header.*each.slot;
      if ((value < each.least || value > each.most) && problem.empty())
        problem = value_words(each.name, value, each.least, each.most);
    }
  });
  return problem;
}

}  // namespace twinblock::wire
