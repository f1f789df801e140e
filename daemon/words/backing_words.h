// What users are told of a backing in which no data were found. Pure; any thread.
#pragma once

#include <string>

#include "base/data_search.h"
#include "base/result.h"

namespace twinblock {

// The end of an advice to replace a disk: by its record the node would take what another disk holds for the volume.
constexpr const char* kDiskReplaced = "if it was replaced, move the metadata file away before the start";

// Parts of sentences about the backing at `path`. Where this node has no metadata, and nothing was found; …
std::string unseen_words(const std::string& path);
// … and where its record says that there were data.
std::string lost_words(DataFound found, const std::string& path);
// … and where its record is about another one.
std::string other_words(const std::string& path);
// Why one that holds nothing is not promoted without a word.
Error why_lost_is_not_promoted(DataFound found, const std::string& path, const std::string& peer);
// … nor one of which its record does not tell what it lacks; …
Error why_other_is_not_promoted(const std::string& path, const std::string& peer);
// … nor where the peer's does not hold any more, either.
Error why_nothing_is_not_promoted(DataFound found, const std::string& path, const std::string& peer);

// A backing is smaller than the volume that this node has on record: more room alone would hold zeroes where there were
// data, and pass for the peer's equal.
Error cut_off(Error too_small, const std::string& metadata, const std::string& volume, const std::string& peer);

}  // namespace twinblock
