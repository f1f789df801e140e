#include "report.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <utility>

namespace twinblock::sim {
namespace {

struct State {
  std::string replay;
  bool verbose = false;
  uint64_t now_ns = 0;
};
State state;

void crashed(int signal) {
  const auto say = [](const char* text, size_t length) {
    if (write(STDERR_FILENO, text, length) < 0) _exit(3);
  };
  constexpr char kIntro[] = "the engine crashed; replay: ";
  say(kIntro, sizeof kIntro - 1);
  say(state.replay.data(), state.replay.size());
  say("\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void Report::begin_run(std::string replay, bool verbose) {
  state = State{std::move(replay), verbose, 0};
}
void Report::set_now(uint64_t now_ns) { state.now_ns = now_ns; }
bool Report::verbose() { return state.verbose; }

void Report::trace(const std::string& who, const std::string& what) {
  if (!state.verbose) return;
  std::fprintf(stderr, "%11.6f %-8s %s\n", static_cast<double>(state.now_ns) / 1e9, who.c_str(),
               what.c_str());
}

void Report::violation(const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "VIOLATION at %.6f s: %s\n  replay: %s --verbose\n",
               static_cast<double>(state.now_ns) / 1e9, what.c_str(), state.replay.c_str());
  std::fflush(stderr);
  _exit(1);
}

void Report::install_crash_handler() {
  std::signal(SIGABRT, crashed);
#if !defined(__SANITIZE_ADDRESS__)
  std::signal(SIGSEGV, crashed);
#endif
}

}  // namespace twinblock::sim
