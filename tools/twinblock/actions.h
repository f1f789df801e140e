// What the verbs do: each asks the node behind a control socket and returns what to print. Errors
// carry an exit status.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "twinblock/options.h"

namespace twinblock {

// status_actions.cc: how a node is, or all that are here.
Result<Output> run_status(const Options& options, const std::string& socket);
Result<Output> run_status_of_all(const Options& options, const std::vector<std::string>& sockets);
// The status of a node, for all of them.
Result<nlohmann::json> ask_status(const std::string& socket);
// {"volumes": […]}, one for each socket, in their order; of a node that does not answer its volume, "error" and
// "action", and the exit status says so.
Output ask_all(const std::vector<std::string>& sockets,
               const std::function<Result<nlohmann::json>(const std::string& socket)>& ask);

// node_actions.cc: the node and its role.
Result<Output> run_why(const Options& options, const std::string& socket);
Result<Output> run_init(const Options& options, const std::string& socket);
Result<Output> run_promote(const Options& options, const std::string& socket);
Result<Output> run_demote(const Options& options, const std::string& socket);
Result<Output> run_continue(const Options& options, const std::string& socket);
// The volume's device on this host gets the volume's size, where it can: a sentence; empty: there is none.
std::string grow_attached_device(const std::string& socket);
Result<Output> run_rollback(const Options& options, const std::string& socket);
Result<Output> run_snapshot(const Options& options, const std::string& socket);
Result<Output> run_grow(const Options& options, const std::string& socket);
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
Result<Output> run_latency_of_all(const Options& options, const std::vector<std::string>& sockets);
Result<Output> run_stats(const Options& options, const std::string& socket);
Result<Output> run_metrics(const Options& options, const std::string& socket);

// plan_actions.cc: what other links would bring, or whether what was recorded needs one.
Result<Output> run_plan(const Options& options, const std::string& socket);

// probe_actions.cc: what the links really give.
Result<Output> run_probe(const Options& options, const std::string& socket);

// web_actions.cc: the page. Asks the nodes of this host by itself.
Result<Output> run_web(const Options& options, const std::string& socket);

// event_actions.cc: what happened.
Result<Output> run_events(const Options& options, const std::string& socket);

// device_actions.cc: the block device.
Result<Output> run_attach(const Options& options, const std::string& socket);
Result<Output> run_detach(const Options& options, const std::string& socket);

// promoter_actions.cc: who serves the volume.
Result<Output> run_promoter(const Options& options, const std::string& socket);

// The control socket of the one node that the options name. With --socket the volume finds nothing: a wrong one was
// meant for another node, or is a slip of a goal, a mode, a link; so that the node there has it is checked. A node
// that does not answer is the verb's affair.
Result<std::string> find_node(const Options& options);

// "twinblock VERB …" with the options that name the node as the user named it: what to type next.
std::string next_command(const Options& options, const std::string& verb);

// The text of `why`: one paragraph a sentence.
std::string why_text(const nlohmann::json& result);

}  // namespace twinblock
