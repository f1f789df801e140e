// What the verbs do: each asks the node behind a control socket and returns what to print. Errors
// carry an exit status.
#pragma once

#include <string>

#include "base/result.h"
#include "twinblock/options.h"

namespace twinblock {

// node_actions.cc: the node and its role.
Result<Output> run_status(const Options& options, const std::string& socket);
Result<Output> run_why(const Options& options, const std::string& socket);
Result<Output> run_init(const Options& options, const std::string& socket);
Result<Output> run_promote(const Options& options, const std::string& socket);
Result<Output> run_demote(const Options& options, const std::string& socket);
Result<Output> run_continue(const Options& options, const std::string& socket);
Result<Output> run_resolve(const Options& options, const std::string& socket);

// sync_actions.cc: resync and verification.
Result<Output> run_wait(const Options& options, const std::string& socket);
Result<Output> run_resync(const Options& options, const std::string& socket);
Result<Output> run_verify(const Options& options, const std::string& socket);

// link_actions.cc: what goes between the nodes, and how.
Result<Output> run_link(const Options& options, const std::string& socket);
Result<Output> run_compression(const Options& options, const std::string& socket);

// key_actions.cc: the file by which the nodes know each other. Asks no node.
Result<Output> run_key(const Options& options, const std::string& socket);

// observe_actions.cc: figures.
Result<Output> run_latency(const Options& options, const std::string& socket);
Result<Output> run_stats(const Options& options, const std::string& socket);
Result<Output> run_metrics(const Options& options, const std::string& socket);

// event_actions.cc: what happened.
Result<Output> run_events(const Options& options, const std::string& socket);

// device_actions.cc: the block device.
Result<Output> run_attach(const Options& options, const std::string& socket);
Result<Output> run_detach(const Options& options, const std::string& socket);

// The status of a node, for all of them.
Result<nlohmann::json> ask_status(const std::string& socket);

// With --socket the volume finds nothing: a wrong one was meant for another node, or is a slip of a
// goal, a mode, a link. Whether the node there has it; a node that does not answer is the verb's affair.
Status check_volume(const Options& options, const std::string& socket);

// "twinblock VERB …" with the options that name the node as the user named it: what to type next.
std::string next_command(const Options& options, const std::string& verb);

// The text of `why`: one paragraph a sentence.
std::string why_text(const nlohmann::json& result);

}  // namespace twinblock
