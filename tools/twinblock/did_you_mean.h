// Which of the words that there are somebody meant who typed another one. Pure.
#pragma once

#include <string>
#include <vector>

namespace twinblock {

// "did you mean 'status'? ", to begin an advice with; empty where no word is near enough to guess.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& words);

}  // namespace twinblock
