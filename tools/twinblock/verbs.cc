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
  app.add_flag("--without-witness", options.promote.without_witness,
               "with --peer-is-dead: your word counts in place of the witness' consent");
}

void add_continue_options(CLI::App& app, Options& options) {
  app.add_flag("--without-witness", options.go_on.without_witness,
               "your word counts in place of the witness' consent");
}

void add_grow_options(CLI::App& app, Options& options) {
  app.add_option("WORDS", options.grow.words, "")
      ->option_text("([VOLUME] SIZE, such as 20GiB or 1TB: how large it is to be)")
      ->type_size(1)
      ->expected(-1);
}

void add_snapshot_options(CLI::App& app, Options& options) {
  app.add_option("WORDS", options.snapshot.words, "")
      ->option_text("([VOLUME] NAME, such as before-upgrade: how it is to be called)")
      ->type_size(1)
      ->expected(-1);
}

void add_resolve_options(CLI::App& app, Options& options) {
  app.add_option("--keep", options.resolve.keep, "whose writes stay: local (this node's) or peer")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>{"local", "peer"}));
  app.add_flag("--yes", options.resolve.yes, "do it; else only what would be lost is said");
  app.add_option("--state", options.resolve.state, "with --yes: only if what is given up is still what was shown")
      ->type_name("NUMBER")->needs("--yes");
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
  app.add_flag("--in-use", options.detach.in_use,
               "with --force: also while somebody uses it, who gets I/O errors from then on")
      ->needs(force);
  app.add_flag("--with-host", options.detach.with_host,
               "only while the host goes down, and then also what is in use: for the node's unit")
      ->excludes(force);
}

void add_promoter_options(CLI::App& app, Options& options) {
  PromoterOptions& promoter = options.promoter;
  app.add_option("--prefer", promoter.prefer,
                 "the node that goes first where both may (else the one that was primary last)");
  app.add_option("--target", promoter.target,
                 "systemd's unit of what uses the volume (default twinblock-VOLUME.target)");
  app.add_option("--start", promoter.start,
                 "without systemd: the program that starts what uses the volume");
  app.add_option("--stop", promoter.stop, "… and the one that stops it");
  app.add_option("--restart-wait", promoter.restart_wait,
                 "how long a primary may be silent, since its process may come back (3s)");
  app.add_option("--boot-wait", promoter.boot_wait,
                 "how long a node that has just begun waits to meet the other one (20s)");
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
  app.add_flag("--progress", options.wait.progress, "show how a resync proceeds, on stderr, and wait while it does");
}

void add_watch_option(CLI::App& app, Options& options, const char* help) {
  const auto watch = [&options](const std::string& interval) {
    options.watch.on = true;
    options.watch.interval = interval;
  };
  app.add_option_function<std::string>("--watch", watch, help)
      ->option_text("[INTERVAL]")
      ->expected(0, 1);
}

void add_status_options(CLI::App& app, Options& options) {
  add_watch_option(app, options, "live, every so often (2s) until Ctrl-C");
}

void add_latency_options(CLI::App& app, Options& options) {
  app.add_option("--window", options.latency.window,
                 "start: since the node started (the default); 10s, 60s: lately")
      ->check(CLI::IsMember(std::vector<std::string>{"start", "10s", "60s"}));
  add_watch_option(app, options,
                   "live, every so often (2s) until Ctrl-C; the last 10 s, unless --window is given");
  app.add_flag("--sizes", options.latency.sizes, "also how long each stage took, by size of the write");
  app.add_flag("--links", options.latency.links, "also the parts of round trips, by link");
  app.add_option("--sample", options.latency.sample_every,
                 "take the kernels' timestamps of one write in so many (64 at the start); 0: none");
}

void add_web_options(CLI::App& app, Options& options) {
  app.add_option("--listen", options.web.listen, "where: 127.0.0.1:7780 unless another address is said");
  app.add_option("--host", options.web.hosts,
                 "a name by which browsers may call this host, beside localhost and addresses; may be given more "
                 "than once");
}

void add_probe_options(CLI::App& app, Options& options) {
  app.add_option("--link", options.probe.links, "probe this link only; again for more (all)")->type_name("NAME");
  app.add_option("--duty", options.probe.duty,
                 "which part of the time a stream may take, in per cent (all; 4 while clients write)")
      ->type_name("PERCENT")
      ->check([](const std::string& text) {
        const bool none = !text.empty() && text.find_first_not_of('0') == std::string::npos;
        return none ? "0 is none of the time: give 1 to 100" : std::string();
      });
  app.add_option("--plot", options.probe.plot, "write the gaps picture there, as SVG")->type_name("FILE.svg");
}

void add_plan_options(CLI::App& app, Options& options) {
  app.add_option("--link", options.plan.links,
                 "a link to plan with in place of the usual ones: 10Gbit, or 10Gbit,rtt=80us; may be given "
                 "more than once");
  app.add_option("--window", options.plan.window, "60s (the default), 10s: lately; start: since the node started")
      ->check(CLI::IsMember(std::vector<std::string>{"start", "10s", "60s"}));
  app.add_option("--now", options.plan.now,
                 "what the present links are called together, such as 1Gbit, where the node does not know");
  app.add_option("--compression", options.plan.ratio,
                 "plan with compression, too, where the data compresses to so much less: 2.5")
      ->type_name("RATIO")
      ->check(CLI::Range(1.01, 100.0));
  app.add_option("--from", options.plan.from, "a recording of iostat, sar, Performance Monitor or fio; again for more")
      ->option_text("FILE ...")
      ->allow_extra_args(false);
  app.add_option("--device", options.plan.devices, "count this device only; again for more (all whole disks)")
      ->option_text("NAME ...")
      ->allow_extra_args(false);
  app.add_option("--times", options.plan.times, "count what was recorded so many times (1)")
      ->check([](const std::string& text) {
        const bool plain = text.find_first_not_of("0123456789.") == std::string::npos;
        return plain ? std::string() : "it is not a number above 0, written like 5 or 2.5";
      });
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
       "--join makes this node wait for the peer's data instead.\nExample: twinblock init r0",
       run_init, add_init_options},
      {"promote", "make this node the primary",
       "Makes this node the primary, which exports the device. Refused while the peer is primary, "
       "and while this replica is not current. When the peer was primary and can't be reached, it "
       "may still be writing: first make sure that it is down (fenced), then say so with "
       "--peer-is-dead. While the session with it still stands, that waits until the peer counts as "
       "lost (at most peer_timeout), and is refused if the peer answers. With [witness] in the "
       "volume's file no such word is needed: the witness is asked, and its consent counts. Where "
       "it can't be asked any more, --without-witness replaces it, for this once.\n"
       "For scripts, the exit status says what becomes of a promotion that was refused: 0 it is "
       "primary (also: was so already); 7 refused for good, until somebody mends it: half-copied, "
       "outdated, not initialised, its disk or a flush failed; 8 refused now: the peer is primary, "
       "or was when it was last heard (also where it is silent since; without a witness it takes "
       "--peer-is-dead then), or the witness says that it may have gone on alone; 9 it may succeed later: the "
       "witness can't be reached, the peer has not answered, or may hold more than this node, whose "
       "host was started anew, or this node is changing its role or being brought up to date. With --json the same is \"refused\": \"for_good\", \"now\" or "
       "\"later\".\n"
       "Example: twinblock promote r0",
       run_promote, add_promote_options, prepare_promote},
      {"demote", "make this node a secondary",
       "Makes this node a secondary: the device is flushed to both nodes and no longer exported. "
       "Refused while clients are connected; detach first. Takes back a promotion that still waits for its witness, or for the peer's loss.\n"
       "Example: twinblock demote r0",
       run_demote, nullptr},
      {"continue", "let a frozen primary go on alone",
       "With on_peer_loss = \"freeze\", a primary that has lost its peer holds its writes. This lets them go on without it, "
       "until it is back; what it misses is recorded. Make sure that the peer is not being promoted at the same time. A "
       "primary whose witness does not consent holds reads and writes, too; --without-witness lets it go on all the same: "
       "make sure first that the peer is down and stays so.\n"
       "Example: twinblock continue r0",
       run_continue, add_continue_options},
      {"resolve", "end a split brain",
       "After a split brain, says whose writes are kept, this node's or the peer's; the other node's are given up, and it "
       "is brought to the same state. Without --yes nothing is changed: it says what would be lost, and the command that "
       "does it, for that state only. A node whose writes are given up must not be primary: demote it first. What it "
       "writes after that makes the order void.\n"
       "Example: twinblock resolve r0 --keep local",
       run_resolve, add_resolve_options},
      {"rollback", "go back to what a half-copied node was",
       "Where the source of a resync died before the resync had ended, its target is half-copied: a mixture of old "
       "and new data, which nobody can use. If the volume's file has [copies] before_resync, a copy of the target "
       "was taken before; this brings it back. The answer says what the node lacks then. It is refused while the "
       "peer is connected, which finishes the copy. To go on with what came back: twinblock promote --peer-is-dead; "
       "beside an etcd, which knows that the peer has more, with --without-witness, too. When the peer is back, the "
       "two have diverged: twinblock resolve. A rollback that fails, or is interrupted, can be ordered again.\n"
       "Example: twinblock rollback r0",
       run_rollback, nullptr},
      {"grow", "make the volume larger",
       "Makes the volume larger on both nodes, while it is in use. Enlarge the backing on both hosts "
       "first (truncate, lvextend). Run it on the primary, in duplex, or on either node where neither "
       "is primary. What is new reads as zeroes. A device that the kernel's nbd serves gets the new "
       "size at once, other clients with their next connection; the file system on it is grown as on "
       "any disk (resize2fs, xfs_growfs). Write the new size into the volume's file afterwards. A "
       "volume can't be made smaller.\n"
       "Example: twinblock grow r0 20GiB",
       run_grow, add_grow_options, prepare_grow, false},
      {"snapshot", "copy both replicas at the same moment",
       "Takes a copy of the backing on both nodes, at the same point of the order of writes, so that "
       "both copies hold the same; for backups, from the secondary too. Clients' writes wait while the "
       "copies are taken, for no longer than timeout in [copies]; how long that was is told. Reads go on. "
       "The copy is a reflink beside the backing (a file on XFS or btrfs), or what the command does that "
       "[copies] names. It holds what a power cut at that moment would have left. Run it on the primary, "
       "in duplex, or on either node where neither is primary. Where anything fails, there is no copy on "
       "either node. A copy is removed like a file.\n"
       "Example: twinblock snapshot r0 before-upgrade",
       run_snapshot, add_snapshot_options, prepare_snapshot, false},
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
       "those that differ; cut off, that is to be ordered again there (see status). The node "
       "goes on when this command is interrupted. Exits with 0 when the replicas are identical, with "
       "5 when any block differs (repaired or not), with 1 when it ended early without finding any.\n"
       "Example: twinblock verify r0",
       run_verify, add_verify_options, prepare_verify},
      {"wait", "wait until a node is in a state",
       "Waits until the node is as wished: duplex (both replicas current), whole (the same, also "
       "where neither node is primary), connected, promotable (it may be promoted, or is primary), "
       "primary, secondary, simplex or resync. Exits with 4 when that takes longer than --timeout. "
       "--progress shows how a resync proceeds, or why nothing does; without --timeout it waits as long as it does.\n"
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
       "counters and latencies, and, when something is wrong, what it is and what to do. Without a "
       "name, where several volumes have nodes here: a line for each. --watch shows that live.\n"
       "Example: twinblock status r0\n"
       "Example: twinblock status --watch",
       run_status, add_status_options, prepare_status, true, true, run_status_of_all},
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
       "Says whether a faster link would help, and shows where the time of writes goes, by size of "
       "the write: a bar of its stages, and how long writes took. --sizes shows how long each stage "
       "took: the local and the peer's disk, the wire, the kernels and their stacks, queues, "
       "compression; --links the parts of round trips, as the kernels' timestamps tell them. Ask the "
       "primary: it is the one that times writes. Without a name, where several volumes have nodes "
       "here: all of them. --watch shows that live. --sample sets, until the node ends, of how many "
       "writes one is looked at by the kernels' timestamps.\n"
       "Example: twinblock latency r0\n"
       "Example: twinblock latency r0 --watch",
       run_latency, add_latency_options, prepare_latency, true, true, run_latency_of_all},
      {"plan", "tell whether a faster link would help, and by how much",
       "Tells from what the clients do now how they would fare over 1, 10, 25 and 100 Gbit/s and with a second link: "
       "how long writes take, by size, how much they move, how busy the link is, and how long a resync takes after "
       "an outage; with a recommendation, what that rests on and how sure it is. Ask the primary, while its clients "
       "do what they usually do. Over the present link it tells what disks twice as fast would bring, and how it would be "
       "without encryption, or with it, and without compression, or (--compression) with it. Without a name, where several volumes have nodes here: all of them, and together.\n"
       "With --from it reads recordings of what machines write today, before there is a mirror: iostat -x -t (text, or "
       "with -o JSON), sar -d (or sadf -j FILE -- -d), Performance Monitor's CSV, fio's JSON; it tells them by their "
       "content. It shows average, 95th percentile and peak of MB/s and writes/s and the average size of a write, puts "
       "them into zones (green, yellow, red) and recommends. Several files are added up, one for each machine that is "
       "to use the link: by time where they overlap, else by their peaks. All whole disks count, unless --device says "
       "which.\n"
       "Example: twinblock plan r0\n"
       "Example: twinblock plan r0 --link 10Gbit,rtt=80us\n"
       "Example: twinblock plan --from monday.txt --times 5",
       run_plan, add_plan_options, prepare_plan, true, false},
      {"probe", "measure what the links really give",
       "Measures each link from this node to the peer, over a connection of its own: what the interface gives (its rate, "
       "MTU and headers), what a stream carries, and what goes to and fro one by one; round trips; the window and what "
       "bounds it; who limits the stream: the link, the sender, the receiver, or a buffer; and when nothing came: the "
       "gaps picture. It warns of settings that hurt, with the command that mends them. The nodes have to run; there "
       "need be no volume yet (init), nor a session. While clients write, streams are short and wait for each other, so "
       "that they cost clients little. For the other direction ask the other node.\n"
       "Example: twinblock probe r0\n"
       "Example: twinblock probe r0 --link link1 --plot link1.svg",
       run_probe, add_probe_options, prepare_probe},
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
      {"web", "serve a page about all volumes of this host",
       "Serves a page for browsers: how each volume is, why, and what to do; its links, where the time of writes goes, "
       "throughput and latency of the last hour, what happened, and what a faster link would bring. /metrics is for "
       "Prometheus, of all volumes together. It only looks: nobody can order anything by it. It listens on this host "
       "alone unless --listen says otherwise; who can reach it can read it. Runs until Ctrl-C or SIGTERM.\n"
       "Example: twinblock web\n"
       "Example: twinblock web --listen 10.0.0.1:7780 --host alpha.example",
       run_web, add_web_options, prepare_web, true, false},
      {"metrics", "print what a node has counted and timed for Prometheus",
       "Prints the text format of Prometheus, for example for the node exporter's textfile "
       "collector. `twinblock web` serves the same over HTTP, of all volumes of this host.\n"
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
       "what was not written yet. A device of the kernel's nbd whose node is gone waits for the next "
       "one, and with it all that use it, an umount too: --force --in-use ends it under them, so "
       "that they get I/O errors; unmount it then, and detach again.\n"
       "Example: umount /mnt && twinblock detach r0",
       run_detach, add_detach_options},
  };
}

std::vector<Verb> promoter_verbs() {
  return {
      {"promoter", "let a node be promoted by itself, and start what uses it",
       "Runs beside a node until SIGTERM or Ctrl-C, on both hosts: the unit twinblock-promoter@. When "
       "nobody serves the volume it promotes its node, and when that is primary it starts the target: a "
       "unit of systemd to which the attachment, the mount and the services belong. It stops the target "
       "when the node is primary no more, and at its own end, before it demotes the node. Needs a "
       "witness, [witness] in the volume's file: without one it refuses to start.\n"
       "When both nodes may be promoted, the one of --prefer goes first, else the one that was primary "
       "last. A demotion moves the service: for 10 s this node leaves it to the other one; so does a "
       "restart of this unit, where the node is primary. A target that does not start here is stopped, "
       "and the node demoted, so that the other one may try. --start and --stop are absolute paths, run "
       "with the volume's name; what is started or stopped already is no error to them.\n"
       "Example: systemctl enable --now twinblock-promoter@r0",
       run_promoter, add_promoter_options, prepare_promoter},
  };
}

}  // namespace

const std::vector<Verb>& verbs() {
  static const std::vector<Verb> table = [] {
    std::vector<Verb> all;
    for (const auto& group : {looking_verbs(), observe_verbs(), role_verbs(), device_verbs(),
                              promoter_verbs(), sync_verbs(), link_verbs()})
      all.insert(all.end(), group.begin(), group.end());
    return all;
  }();
  return table;
}

}  // namespace twinblock
