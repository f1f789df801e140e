#include "twinblock/verbs.h"

#include "base/limits.h"
#include "twinblock/actions.h"
#include "twinblock/wait.h"

namespace twinblock {
namespace {

void add_init_options(CLI::App& app, Options& options) {
  app.add_flag("--force", options.init.force,
               "also where there is a volume already: it is forgotten");
  app.add_flag("--join", options.init.join, "be the blank side, which is filled by the peer");
}

void add_promote_options(CLI::App& app, Options& options) {
  app.add_flag("--peer-is-dead", options.promote.peer_is_dead,
               "you made sure that the unreachable peer is down");
}

void add_resolve_options(CLI::App& app, Options& options) {
  app.add_option("--keep", options.resolve.keep, "whose writes stay: local (this node's) or peer")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>{"local", "peer"}));
  app.add_flag("--yes", options.resolve.yes, "do it; else only what would be lost is said");
}

void add_resync_options(CLI::App& app, Options& options) {
  // One list with the volume, which may be left out.
  app.add_option("WORDS", options.resync.words, "")
      ->option_text("([VOLUME] pause | resume | auto | rate SIZE)")
      ->type_size(1)
      ->expected(-1);
}

void add_link_options(CLI::App& app, Options& options) {
  // One list with the volume, which may be left out where one link is named.
  app.add_option("WORDS", options.link.words, "")
      ->option_text("(list | add | remove | enable | disable [VOLUME] [NAME...] [NODE=IP:PORT...])")
      ->type_size(1)
      ->expected(-1);
  app.add_option("--rate", options.link.rate, "add: what the link can carry, such as 10Gbit");
}

void add_key_options(CLI::App& app, Options& options) {
  // One list with the volume, which may be left out with --config.
  app.add_option("WORDS", options.key.words, "")
      ->option_text("(new | show | add | reload | renew) [VOLUME]")
      ->type_size(1)
      ->expected(-1);
}

void add_compression_options(CLI::App& app, Options& options) {
  app.add_option("WORDS", options.compression.words, "")
      ->option_text("([VOLUME] [off | on | auto])")
      ->type_size(1)
      ->expected(-1);
  app.add_option("--level", options.compression.level,
                 "of zstd: 1, the default, is the fastest, 19 the smallest")
      ->check(CLI::Range(limits::kCompressionLevelMin, limits::kCompressionLevelMax));
}

void add_verify_options(CLI::App& app, Options& options) {
  app.add_flag("--repair", options.verify.repair, "copy this node's blocks over those that differ");
  app.add_flag("--wait,--progress", options.verify.follow,
               "where a verification is under way already, follow that one");
  app.add_flag("--detach,--no-wait", options.verify.detach, "begin, and do not wait for the end");
  app.add_flag("--stop", options.verify.stop, "end the verification that is under way");
}

void add_attach_options(CLI::App& app, Options& options) {
  app.add_option("--method", options.attach.method, "how, instead of the best way that works here")
      ->check(CLI::IsMember(std::vector<std::string>{kMethodAuto, kMethodNbd, kMethodNbdfuse,
                                                     kMethodNbdfuseFile}));
  app.add_flag("--stay", options.attach.stay,
               "look after the device until SIGTERM or Ctrl-C, which detach it");
}

void add_detach_options(CLI::App& app, Options& options) {
  CLI::Option* force =
      app.add_flag("--force", options.detach.force, "also when the device can't be flushed");
  app.add_flag("--with-host", options.detach.with_host,
               "only while the host goes down, and then also what is in use: for the node's unit")
      ->excludes(force);
}

void add_wait_options(CLI::App& app, Options& options) {
  // One list with the volume, which may be left out.
  app.add_option("WORDS", options.wait.words, "")
      ->option_text("([VOLUME] [GOAL])")
      ->type_size(1)
      ->expected(-1);
  app.add_option("--for", options.wait.goal,
                 "what to wait for (default duplex): the goal, as an option")
      ->check(CLI::IsMember(wait_goals()));
  app.add_option("--timeout", options.wait.timeout, "such as 500ms, 60s (the default), 10min");
  app.add_flag("--progress", options.wait.progress, "show how a resync proceeds, on stderr");
}

void add_latency_options(CLI::App& app, Options& options) {
  app.add_option("--window", options.latency.window,
                 "start: since the node started (the default); 10s, 60s: lately")
      ->check(CLI::IsMember(std::vector<std::string>{"start", "10s", "60s"}));
  const auto watch = [&options](const std::string& interval) {
    options.latency.watch = true;
    options.latency.interval = interval;
  };
  app.add_option_function<std::string>("--watch", watch,
                                       "live, every so often (2s) until Ctrl-C; the last 10 s, "
                                       "unless --window is given")
      ->option_text("[INTERVAL]")
      ->expected(0, 1);
  app.add_option("--sample", options.latency.sample_every,
                 "take the kernels' timestamps of one write in so many (64 at the start); 0: none");
}

void add_events_options(CLI::App& app, Options& options) {
  app.add_flag("--follow,-f", options.events.follow, "go on with what happens next");
  app.add_option("--since", options.events.since, "only events after the one with this number");
}

std::vector<Verb> role_verbs() {
  return {
      {"init", "make a new volume of this node's replica",
       "Makes a new volume: this node's replica, as it is, becomes the first one that is current, "
       "and the peer's blank replica is filled from it when they meet. Run it on one node only. "
       "Refuses a replica that belongs to a volume already; --force makes a new volume of it and "
       "forgets the old one: the peer's replica then belongs to another volume, and it says so. "
       "--join makes this node wait for the peer's data instead.\n"
       "Example: twinblock init r0",
       run_init, add_init_options},
      {"promote", "make this node the primary",
       "Makes this node the primary, which exports the device. Refused while the peer is primary, "
       "and while this replica is not current. When the peer was primary and can't be reached, it "
       "may still be writing: first make sure that it is down (fenced), then say so with "
       "--peer-is-dead. While the session with it still stands, that waits until the peer counts as "
       "lost (at most peer_timeout), and is refused if the peer answers.\n"
       "Example: twinblock promote r0",
       run_promote, add_promote_options},
      {"demote", "make this node a secondary",
       "Makes this node a secondary: the device is flushed to both nodes and no longer exported. "
       "Refused while clients are connected; detach first.\n"
       "Example: twinblock demote r0",
       run_demote, nullptr},
      {"continue", "let a frozen primary go on alone",
       "With on_peer_loss = \"freeze\", a primary that has lost its peer holds its writes. This "
       "lets them go on without it, until it is back; what it misses is recorded. Make sure that "
       "the peer is not being promoted at the same time.\n"
       "Example: twinblock continue r0",
       run_continue, nullptr},
      {"resolve", "end a split brain",
       "After a split brain, says whose writes are kept, this node's or the peer's; the other "
       "node's are given up, and it is brought to the same state. Without --yes nothing is "
       "changed: it says what would be lost, and the command that does it. A node whose writes "
       "are given up must not be primary: demote it first. What it writes after that makes the "
       "order void.\n"
       "Example: twinblock resolve r0 --keep local",
       run_resolve, add_resolve_options},
  };
}

std::vector<Verb> sync_verbs() {
  return {
      {"resync", "set how fast a resync goes",
       "pause holds a resync until resume. rate limits it to that much a second, such as 100MiB "
       "or 50MB; auto, the default, lets it take what clients leave. Give it to the node that is "
       "the source of the resync; it holds until that node's process ends.\n"
       "Example: twinblock resync r0 rate 100MiB",
       run_resync, add_resync_options, prepare_pace, false},
      {"verify", "compare the two replicas",
       "Compares the replicas block by block with checksums, while writes go on, and waits for "
       "the end. Runs on the primary, in duplex. --repair also copies the primary's blocks over "
       "those that differ. The verification is the node's: it goes on when this command is "
       "interrupted. Exits with 0 when the replicas are identical, with 5 when any block differs "
       "(repaired or not), with 1 when the verification ended early without finding any.\n"
       "Example: twinblock verify r0",
       run_verify, add_verify_options, prepare_verify},
      {"wait", "wait until a node is in a state",
       "Waits until the node is as wished: duplex (both replicas current), connected, promotable "
       "(it may be promoted, or is primary), primary, secondary, simplex or resync. Exits with 4 "
       "when that takes longer than --timeout. "
       "--progress shows how a resync proceeds, or why nothing does.\n"
       "Example: twinblock wait r0 duplex --timeout 10min --progress",
       run_wait, add_wait_options, prepare_wait, false},
  };
}

std::vector<Verb> link_verbs() {
  return {
      {"link", "show, add, remove, enable or disable links",
       "list shows the links between the nodes: state, round trip, what goes out and comes in, "
       "bytes in flight, how often another link took over. add brings a link into use: with both "
       "ends' addresses, or with those that the configuration has for it. remove takes one out of "
       "use, disable does so but keeps it in the list, for enable. All of that under load, on both "
       "nodes (a peer that is away is told when it is back), and until their processes end: what "
       "is to stay belongs into the file on both hosts. The last link that is up is not given "
       "away.\n"
       "Example: twinblock link list r0\n"
       "Example: twinblock link add r0 backup alpha=10.20.0.1:7700 beta=10.20.0.2:7700\n"
       "Example: twinblock link remove r0 backup",
       run_link, add_link_options, prepare_link, false},
      {"key", "make, show or change the key by which the nodes know each other",
       "new makes the file that the volume's file names with key = \"/etc/twinblock/r0.key\": a "
       "random key, readable by its owner only. The same file belongs on both hosts. With it every "
       "link is encrypted (TLS 1.3), and no node speaks to anybody who does not prove the key. "
       "show prints the key's fingerprint, which is no secret; the two nodes' are the same, and "
       "`twinblock status` shows it, too.\n"
       "To change it while the volume is in use: add puts a second key into the file; copy that to "
       "the other host, and run reload on both, so that both nodes take both keys; then renew on "
       "both, one after the other, which gives each link a new connection with the new key, and, "
       "when all have one, removes the old key from that host's file.\n"
       "Example: twinblock key new r0",
       run_key, add_key_options, prepare_key, false, false},
      {"compression", "show or set how what is sent is compressed",
       "Without a mode, shows how the node compresses what it sends and what came of it. off sends "
       "everything as it is, on compresses whatever becomes smaller, auto decides for each write "
       "by what it measures: it compresses where that is faster than sending. Takes effect at "
       "once, without a new connection, on both nodes, and lasts until their processes end: what "
       "is to stay belongs into the file on both hosts.\n"
       "Example: twinblock compression r0 auto --level 3",
       run_compression, add_compression_options, prepare_compression, false},
  };
}

std::vector<Verb> looking_verbs() {
  return {
      {"status", "show how a node is",
       "Shows a node's role and state, its peer and links, a running resync or verification, "
       "counters and latencies, and, when something is wrong, what it is and what to do.\n"
       "Example: twinblock status r0",
       run_status, nullptr},
      {"why", "explain how it came to this",
       "Says in sentences why the node is in its state, why there is a resync and why it is that "
       "big, what would be lost by promoting this node now, and what would be compared after a "
       "crash.\n"
       "Example: twinblock why r0",
       run_why, nullptr},
  };
}

std::vector<Verb> observe_verbs() {
  return {
      {"latency", "show where the time of writes goes",
       "Shows, by size of the write, how long each stage of it takes: the local and the peer's "
       "disk, the wire, the kernels and their stacks, queues, compression; a bar for each size, "
       "the parts of round trips on each link, as the kernels' timestamps tell them, and whether "
       "a faster link would help. Ask the primary: it is the one that times writes. --watch shows "
       "that live. --sample sets, until the node ends, of how many writes one is looked at by the "
       "kernels' timestamps.\n"
       "Example: twinblock latency r0\n"
       "Example: twinblock latency r0 --watch",
       run_latency, add_latency_options, prepare_latency},
      {"stats", "show what a node has counted",
       "Shows what this node has counted since its process began: writes and their sizes, reads, "
       "flushes, how long it was alone (simplex), what resyncs, compression and metadata cost, and "
       "what each link carried.\n"
       "Example: twinblock stats r0",
       run_stats, nullptr},
      {"events", "show what happened to a node",
       "Shows what has happened since this node's process began, as far as it remembers (the last "
       "1000 events): changes of state and role, links that came and went, resyncs, errors of "
       "disks, orders; with reasons. A line each, of words key:value, or with --json a JSON "
       "object. --follow goes on with what happens next, until Ctrl-C, also over restarts of the "
       "node.\n"
       "Example: twinblock events r0 --follow",
       run_events, add_events_options},
      {"metrics", "print what a node has counted and timed for Prometheus",
       "Prints the text format of Prometheus, for example for the node exporter's textfile "
       "collector. A node serves the same over HTTP where its table in the volume's file says "
       "so: metrics = \"127.0.0.1:9777\" in [node.NAME].\n"
       "Example: twinblock metrics r0",
       run_metrics, nullptr},
  };
}

std::vector<Verb> device_verbs() {
  return {
      {"attach", "make a block device of the volume",
       "Makes a device of the volume on the primary and prints its name. Where the kernel has nbd "
       "(it is loaded if need be) that is /dev/nbdN, also called /dev/twinblock/VOLUME: when the "
       "node's process ends its requests wait, and attach, given again, connects it with the next "
       "process, if that carries on the same promotion; if a node was promoted anew meanwhile, the "
       "device's pages may be stale, and attach ends it. --stay does that by itself: it remains in "
       "the foreground, waits for the node where there is none yet, and ends with status 6 when it "
       "had to end the device. Elsewhere the device is a loop device on a file by nbdfuse, or "
       "(without root) that file alone, which mke2fs, qemu and the like take as it is; that one "
       "ends with the node's process: then attach again, which takes the dead device away.\n"
       "Example: mount $(twinblock attach r0) /mnt\n"
       "Example: systemctl enable --now twinblock-attach@r0",
       run_attach, add_attach_options, prepare_attach},
      {"detach", "undo attach",
       "Flushes the device that attach made and takes it away. Refused while it is mounted or "
       "open. Works also when the node is gone; then nothing can be flushed, and --force gives up "
       "what was not written yet.\n"
       "Example: umount /mnt && twinblock detach r0",
       run_detach, add_detach_options},
  };
}

}  // namespace

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = [] {
    std::vector<Verb> all;
    for (const auto& group : {looking_verbs(), observe_verbs(), role_verbs(), device_verbs(),
                              sync_verbs(), link_verbs()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return table;
}

}  // namespace twinblock
