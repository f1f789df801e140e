// The verb `promoter`.
#include <time.h>

#include <cstdio>

#include "twinblock/actions.h"
#include "twinblock/json_fields.h"
#include "twinblock/process.h"
#include "twinblock/promoter.h"
#include "twinblock/standard_output.h"

namespace twinblock {
namespace {

using nlohmann::json;

// As it happens: for the journal, or for a program that reads along.
void say(bool print_json, const std::string& what) {
  if (print_json) {
    const uint64_t now_ns = static_cast<uint64_t>(time(nullptr)) * kSecond_ns;
    std::printf("%s\n", json_text({{"time", format_timestamp(now_ns)}, {"message", what}}).c_str());
  } else {
    std::printf("%s\n", what.c_str());
  }
  (void)flush_output();  // nobody else's affair: it promotes all the same
}

}  // namespace

Result<Output> run_promoter(const Options& options, const std::string& socket) {
  const PromoterOptions& asked = options.promoter;
  const std::string stem = node_file_stem(socket);
  const std::string volume = stem.substr(stem.rfind('/') + 1);
  PromoterSetup setup;
  setup.socket = socket;
  setup.rules = {asked.prefer, asked.restart_wait_ns, asked.boot_wait_ns};
  setup.target = {volume, asked.target.empty() ? "twinblock-" + volume + ".target" : asked.target,
                  asked.start, asked.stop};
  need_no_reclaim();
  Result<Output> output = run_promoter_loop(
      setup, [&options](const std::string& what) { say(options.print_json, what); });
  if (output && options.print_json) output.value().printed = true;
  return output;
}

}  // namespace twinblock
