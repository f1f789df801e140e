// Mutations of an input that is a text of lines: a whole line comes, goes, is repeated or changes
// its place, or libFuzzer's own mutations change letters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace twinblock::fuzz {

// For LLVMFuzzerCustomMutator. `known` are lines worth putting in.
size_t mutate_lines(uint8_t* data, size_t size, size_t max_size, unsigned int seed,
                    std::span<const char* const> known);

}  // namespace twinblock::fuzz
