#include "twinblock/watch.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/units.h"
#include "twinblock/json_fields.h"
#include "twinblock/process.h"
#include "twinblock/standard_output.h"
#include "twinblock/text_format.h"

namespace twinblock {
namespace {

constexpr const char* kHome = "\033[H";
constexpr const char* kClearAll = "\033[2J\033[H";
constexpr const char* kClearToLineEnd = "\033[K";
constexpr const char* kClearBelow = "\033[J";
// A line that is longer than the terminal is wide must not become two.
constexpr const char* kNoWrap = "\033[?7l";
constexpr const char* kWrap = "\033[?7h";

sigset_t stop_set() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

StopSignals::~StopSignals() {
  const sigset_t set = stop_set();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

bool StopSignals::pause(uint64_t ns) {
  const sigset_t set = stop_set();
  const uint64_t until_ns = steady_now_ns() + ns;
  while (true) {
    const uint64_t now_ns = steady_now_ns();
    const uint64_t left_ns = until_ns - std::min(until_ns, now_ns);
    const timespec left{static_cast<time_t>(left_ns / kSecond_ns),
                        static_cast<long>(left_ns % kSecond_ns)};
    if (sigtimedwait(&set, nullptr, &left) > 0) return false;
    if (errno != EINTR) return true;  // EAGAIN: the time is over
  }
}

std::string redraw(const std::string& picture, bool first) {
  std::string out = std::string(first ? kClearAll : kHome) + kNoWrap;
  for (const char c : picture) {
    if (c == '\n') out += kClearToLineEnd;
    out += c;
  }
  return out + kWrap + kClearBelow;
}

Screen::Screen(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) != 0) {}

size_t Screen::rows() const {
  winsize size{};
  if (!terminal_ || ioctl(fileno(out_), TIOCGWINSZ, &size) != 0 || size.ws_row < 2) return 0;
  return size.ws_row - 1;  // the last line stays free for the cursor
}

Result<bool> Screen::draw(const std::string& picture) {
  const std::string text = terminal_ ? redraw(picture, !drawn_) : picture;
  drawn_ = true;
  // As one write: stdio would cut it where its buffer ends.
  std::fflush(out_);
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t n = write(fileno(out_), text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return not_written(n < 0 ? errno : EIO);
    sent += static_cast<size_t>(n);
  }
  return true;
}

Result<Output> watch(const Options& options, const std::function<Result<nlohmann::json>()>& ask,
                     const std::function<std::string(const nlohmann::json&)>& text) {
  StopSignals stop;
  Screen screen(stdout);
  const auto picture = [&](const nlohmann::json& told) {
    if (options.print_json) return json_text(versioned(told)) + "\n";
    return screen.terminal() ? first_lines(text(told), screen.rows()) : text(told) + "\n";
  };
  Output output;
  output.printed = true;
  bool heard = false;
  do {
    const Result<nlohmann::json> told = ask();
    if (!told && (!heard || told.error().code != kExitUnreachable)) return told.error();
    heard = true;
    if (!told && options.print_json) continue;
    const Result<bool> drawn = screen.draw(told ? picture(told.value()) : told.error().what + "; trying again\n");
    if (!drawn) return drawn.error();
    if (!drawn.value()) break;
  } while (stop.pause(options.watch.interval_ns));
  return output;
}

}  // namespace twinblock
