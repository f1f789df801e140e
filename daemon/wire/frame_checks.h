// What is wrong with a frame whose checksums are right: a sender that speaks another version, or is
// no node at all. The sentences begin with the frame's name and name the field. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "wire/frames.h"

namespace twinblock::wire {

// Of what its type says; null: there is no such type.
const Kind* kind_of(uint8_t type);

// As "data frame whose …"; empty: nothing. `volume_bytes` bounds ranges; 0: not known yet, only
// handshake frames are allowed.
std::string header_problem(const FrameHeader& header, uint64_t volume_bytes);
// Of a header that has passed, and a payload whose checksum is right. (What a hello says is for
// compare_hello(), which tells both sides.)
std::string payload_problem(const FrameHeader& header, std::span<const std::byte> payload);

// Whether a name ends within its field, and nothing but zeroes follows.
bool is_padded(const char (&name)[kNameBytes]);

// Makes zero what frames of this type do not have.
void clear_unused(FrameHeader& header);

}  // namespace twinblock::wire
