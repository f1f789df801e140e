// Every queue, pool, retry and length limit of the engine, named once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/units.h"

namespace twinblock::limits {

// Granularity of the dirty map and of resync.
constexpr uint64_t kBlockBytes = 4 * kKiB;
// A chunk of a map: the range that 4 KiB of bits cover; the unit in which maps are kept and sent.
constexpr uint64_t kMapChunkBitsBytes = 4 * kKiB;
constexpr uint64_t kMapChunkBytes = kMapChunkBitsBytes * 8 * kBlockBytes;
constexpr uint64_t kVolumeBytesMin = 64 * kKiB;
constexpr uint64_t kVolumeBytesMax = 64 * kTiB;

// The longest payload of one frame; longer client writes travel as several frames.
constexpr uint32_t kFramePayloadBytesMax = 1 * kMiB;
// The longest range of one zero or trim frame, and of one such request of a disk: like a piece of
// data, it is to be done within disk_timeout on any disk that works.
constexpr uint64_t kFrameZeroBytesMax = 16 * kMiB;
// Client zeroes that are under way to the peer at one time; the rest of a longer one follows.
constexpr uint64_t kZeroBytesInFlightMax = 128 * kMiB;
// The longest range of which one frame asks whether it is a hole.
constexpr uint64_t kFrameHoleBytesMax = 4 * kGiB;
// The longest NBD request (read or write) that is offered to clients.
constexpr uint32_t kClientRequestBytesMax = 32 * kMiB;
// Client writes that hold or wait for a range at one time; more wait outside, in order.
constexpr size_t kWritesInFlightMax = 1024;
// … and their bytes, but that one write of any length may always be in flight.
constexpr uint64_t kWriteBytesInFlightMax = 48 * kMiB;
// Whether a device holds data (base/data_search.h): how long that is looked for at the start of a node, how much is
// read at its ends and in order, how much in one place between, and how close to each other these places become.
constexpr uint64_t kSearch_ns = 10 * kSecond_ns;
constexpr uint64_t kSearchForUnflushed_ns = 1 * kSecond_ns;  // what nobody has been promised
constexpr uint64_t kSearchEdgeBytes = 1 * kMiB;
constexpr uint64_t kSearchPlaceBytes = 64 * kKiB;
constexpr uint64_t kSearchStrideBytesMin = 16 * kMiB;
// Snapshots: how long a name is, how long the flush before one may take (nobody waits for it), and after
// which time a step that is still under way is answered as such (shorter than any time that ends a session).
constexpr size_t kSnapshotNameBytesMax = 63;
constexpr uint64_t kSnapshotFlushMax_ns = 120 * kSecond_ns;
constexpr uint64_t kSnapshotAnswer_ns = 250 * kMillisecond_ns;
// … and how long writes may wait, whatever the file allows a copy: after more of it a device counts as one that hangs.
constexpr uint64_t kSnapshotHoldMax_ns = 30 * kSecond_ns;
// A peer whose disk fails is tried again after this.
constexpr uint64_t kPeerDiskRetry_ns = 10 * kSecond_ns;
// A disk that can't be read in so many places counts as failed.
constexpr size_t kBadPlacesMax = 16;
// What a resync's source could not be read at is tried again after this.
constexpr uint64_t kUnreadableRetry_ns = 60 * kSecond_ns;
// A primary's disk that was full counts as mended when it has refused nothing for this long.
constexpr uint64_t kDiskNoteKept_ns = 10 * kSecond_ns;
// A request to a peer, or to this node's own disk, may take so many times disk_timeout while that disk gets on, …
constexpr uint64_t kDiskPatience = 10;
// … and so many times that in all, however often it was sent again, or others were answered.
constexpr uint64_t kRequestPatience = 3;
// … and a flush there, or any request of this node's own disk, where nobody can tell whether that gets on, so many times.
constexpr uint64_t kBlindFlushPatience = 4;
// A disk that has finished nothing for this long is looked at: does the device do anything?
constexpr uint64_t kDiskLook_ns = 1 * kSecond_ns;
// Epochs are closed when no write has come for the first, at the latest after the second.
constexpr uint64_t kEpochIdle_ns = 1 * kSecond_ns;
constexpr uint64_t kEpochOpenMax_ns = 30 * kSecond_ns;
// Payload that a secondary holds between receiving and its disk; beyond, it stops reading.
constexpr uint64_t kReceiveBytesMax = 64 * kMiB;
// Receive slabs: the longest frame and some room; kept for reuse up to this number.
constexpr size_t kReceiveSlabBytes = kFramePayloadBytesMax + 64 * kKiB;
constexpr size_t kReceiveSlabsKept = 16;
// Of the control stream, for a sender who has much to say: kept until the peer is known to have it.
constexpr uint64_t kControlBytesMax = 4 * kMiB;
// … and with so much a peer that goes on sending, and confirms nothing, has gone mad.
constexpr uint64_t kControlBytesKeptMax = 4 * kControlBytesMax;
// So many frames of it are confirmed at once, and not with the next heartbeat.
constexpr uint64_t kControlFramesUnconfirmedMax = 256;
// Links of a volume, in the configuration and at run time.
constexpr size_t kLinksMax = 8;
// Links that orders are remembered of: those of now, and many that were removed.
constexpr size_t kLinkOrdersMax = 64;
// How much higher than all that were seen the number of an operator's order may be: each has the
// next one, so that more than this is nobody's.
constexpr uint64_t kOrderNumberJumpMax = uint64_t{1} << 20;
// Of connections of one session; a peer that gives more has gone mad.
constexpr uint64_t kIncarnationMax = uint64_t{1} << 62;
// Levels of zstd that are offered: higher ones cost memory on both nodes for next to nothing.
constexpr int kCompressionLevelMin = 1;
constexpr int kCompressionLevelMax = 19;
// Unauthenticated connections that may be open at one time (a flood of so many in the few milliseconds that the peer
// takes for its hello keeps it out), and how long they may take.
constexpr size_t kPendingConnectionsMax = 64;
constexpr uint64_t kHandshakeTimeout_ns = 5 * kSecond_ns;
// Connections of a link that have not proven the key, before that: a flood of so many in the few
// milliseconds that the peer takes keeps it out.
constexpr size_t kUnprovenConnectionsMax = 64;
// Hellos with a proof of the key that are known again when somebody sends their recordings: a node that dials all its
// links as often as it may makes fewer within a minute.
constexpr size_t kSeenHellosMax = 4096;
// What they do is told once for each of so many reasons, and then counted for so long.
constexpr size_t kStrangerReasonsMax = 16;
constexpr uint64_t kStrangerInterval_ns = 10 * kSecond_ns;
// What is wrong with a link is told again, where other reasons came between, after this long; so many
// reasons in that time.
constexpr uint64_t kErrorRepeat_ns = 600 * kSecond_ns;
constexpr size_t kErrorsTold = 16;
// … where another link could be tried instead.
constexpr uint64_t kLinkPatience_ns = 1 * kSecond_ns;
// How long the node that is not the preferred dialler leaves it to the other one to join a session
// that is without any link.
constexpr uint64_t kSecondJoinDelay_ns = 300 * kMillisecond_ns;
// What the file may say of timeouts. Less would take a busy host for a dead link, or peer; more than a minute is not
// worth a second link.
constexpr uint64_t kTimeoutMin_ns = 200 * kMillisecond_ns;
constexpr uint64_t kTimeoutMax_ns = 600 * kSecond_ns;
constexpr uint64_t kLinkTimeoutMin_ns = 100 * kMillisecond_ns;
constexpr uint64_t kLinkTimeoutMax_ns = 60 * kSecond_ns;
// So often a session may be without any link while one request waits; more of it, for peer_timeout, and
// it is the links that carry nothing.
constexpr size_t kPartingsMax = 2;
// So often connections may be renewed meanwhile, those of all links together: each some times.
constexpr size_t kRenewalsMax = 8 * kLinksMax;
// A link of which nothing was heard for this long gets no more work while another one is better.
constexpr uint64_t kSuspicious_ns = 300 * kMillisecond_ns;
// A frame's payload where a write can be spread over several links.
constexpr uint32_t kSplitPayloadBytes = 128 * kKiB;
// A refused connection stays open this long, for the reason to reach the peer.
constexpr uint64_t kFarewell_ns = 500 * kMillisecond_ns;

// A probe of a link: the longest payload, how finely what arrives is counted, and for how long at most; …
constexpr uint32_t kProbePayloadBytesMax = 64 * kKiB;
constexpr uint64_t kProbeInterval_ns = 600 * kMicrosecond_ns;
constexpr size_t kProbeIntervalsMax = 8192;
// … round trips that are taken; what goes to and fro one by one, and for how long; …
constexpr size_t kProbeRoundTrips = 100;
constexpr uint64_t kProbeTalk_ns = 300 * kMillisecond_ns;
// … how long a stream is, on an idle volume and beside clients, and which part of the time it may take
// there; …
constexpr uint64_t kProbeStream_ns = 1 * kSecond_ns;
constexpr uint64_t kProbeStreamBusy_ns = 400 * kMillisecond_ns;
constexpr uint64_t kProbeDutyBusy = 4;  // per cent
// … in round trips at least, but no longer than so much; …
constexpr uint64_t kProbeStreamRoundTrips = 30;
constexpr uint64_t kProbeStreamMax_ns = 3 * kSecond_ns;
// … what lies ready for the socket; from which rate on the volume counts as busy; and how long one may
// take in all.
constexpr uint64_t kProbeAheadBytesMin = 512 * kKiB;
constexpr uint64_t kProbeAheadBytesMax = 8 * kMiB;
constexpr uint64_t kProbeBusyBytes_per_s = 64 * kKiB;
constexpr uint64_t kProbeMax_ns = 120 * kSecond_ns;

// So long a renewal of the links' keys may take, before the last key counts no more than the others again.
constexpr uint64_t kKeyRenewal_ns = 20 * kSecond_ns;

// The witness is looked at again after this: in duplex, whether it can be reached, …
constexpr uint64_t kWitnessLook_ns = 10 * kSecond_ns;
// Two nodes whose registers have different marks for so long ask two of them: either looks at its own every kWitnessLook_ns.
constexpr uint64_t kWitnessMarksDiffer_ns = 2 * kWitnessLook_ns + 5 * kSecond_ns;
// … while somebody waits for it, whether the peer has overtaken this node meanwhile, …
constexpr uint64_t kWitnessTurn_ns = 100 * kMillisecond_ns;
// … when it refused, whether it still does, and when it could not be asked, ever more seldom.
constexpr uint64_t kWitnessRefusedPause_ns = 2 * kSecond_ns;
constexpr uint64_t kWitnessPauseMin_ns = 250 * kMillisecond_ns;
constexpr uint64_t kWitnessPauseMax_ns = 5 * kSecond_ns;
// So often in a row somebody else may have been quicker in replacing what stands there.
constexpr uint32_t kWitnessRacesMax = 8;

// For so long at most a primary beside a witness reads by itself after its peer answered it last: what a peer lets pass
// that has just been started, as it does not know what an earlier process, with another file, has told.
constexpr uint64_t kLeaseMax_ns = 5 * kSecond_ns;

// A flush that takes longer is on record until it ends: whoever dies in it is the only one that is told of its failure.
// (A node that is killed meanwhile does not go on as primary.)
constexpr uint64_t kFlushOnRecord_ns = 5 * kSecond_ns;
// For so long at most a start compares what memory holds of the data disk with that disk, as clients wait for a restart: some
// GiB of it, the latest written first.
constexpr uint64_t kMemoryLook_ns = 2 * kSecond_ns;

constexpr uint64_t kHeartbeatInterval_ns = 100 * kMillisecond_ns;
constexpr uint64_t kReconnectDelayMin_ns = 50 * kMillisecond_ns;
constexpr uint64_t kReconnectDelayMax_ns = 2 * kSecond_ns;
// A link whose address is not there when the node starts is looked at again this often.
constexpr uint64_t kListenAgain_ns = 2 * kSecond_ns;
// A node that is not the preferred dialler waits this long without a session before it dials too.
constexpr uint64_t kSecondDialerDelay_ns = 2 * kSecond_ns;

// Resync: one run, and how many are outstanding with and without client writes beside them.
constexpr uint64_t kResyncRunBytesMax = 256 * kKiB;
// Holes that are copied at one time, or compared while clients write beside: their writes there
// wait for it. (Holes that are compared otherwise: kFrameHoleBytesMax.)
constexpr uint64_t kResyncHoleBytesMax = 64 * kMiB;
// Shorter holes are taken for data.
constexpr uint64_t kHoleBytesMin = 64 * kKiB;
// Regions of the intent map: how coarse, and how often untouched ones are looked for.
constexpr uint32_t kIntentRegionBytes = 4 * kMiB;
constexpr uint64_t kIntentAheadRegions = 4;  // set along for a sequential writer
constexpr uint64_t kIntentAge_ns = 15 * kSecond_ns;
// For so long whose connection was ended by order is taken to be about to make another one.
constexpr uint64_t kHungUpAwaited_ns = 10 * 60 * kSecond_ns;
// How long a commit of intents waits for more writes to share it, at the most.
constexpr uint64_t kIntentGatherMax_ns = 2 * kMillisecond_ns;
constexpr size_t kResyncRunsMax = 8;
constexpr size_t kResyncRunsBusyMax = 1;
constexpr uint64_t kResyncRunBusyBytesMax = 128 * kKiB;

// Client writes for one that kernels are asked about (times on the wire).
constexpr uint32_t kSampleEvery = 64;
// … but no more often than this, unless each write is to be: a sample costs some 30 us on the two
// nodes together.
constexpr uint64_t kSampleInterval_ns = 10 * kMillisecond_ns;

// Events that a node remembers, and how many of them one answer holds.
constexpr size_t kEventsKept = 1000;
constexpr size_t kEventsPerAnswer = 50;
// Who waits for the next one: how many, how long without any, and for what follows it at once.
constexpr size_t kEventWaitersMax = 16;
constexpr uint64_t kEventWait_ns = 25 * kSecond_ns;
constexpr uint64_t kEventGather_ns = 5 * kMillisecond_ns;

// A witness (daemon/io/posix/WITNESS.md): endpoints of etcd, and the longest answer that is read.
constexpr size_t kWitnessEndpointsMax = 8;
constexpr size_t kWitnessAnswerBytesMax = 64 * kKiB;
// Log lines that nobody takes, as from a pipe that is full, are dropped when that much time has passed since the end of
// the log; it looks that often whether there is room.
constexpr uint64_t kLogPatience_ns = 2 * kSecond_ns;
constexpr uint64_t kLogLook_ns = 50 * kMillisecond_ns;
// So many lines about what failed at clients are logged in such a time; of the rest, the number.
constexpr uint32_t kClientErrorLines = 20;
constexpr uint64_t kClientErrorWindow_ns = 10 * kSecond_ns;
// Of what a command of the user's says, this much is logged; …
constexpr size_t kFenceLineBytesMax = 1 * kKiB;
constexpr size_t kFenceLinesMax = 200;
// … and after its deadline it has so long to end by itself.
constexpr uint64_t kCommandPatience_ns = 1 * kSecond_ns;

// So long a read waits at most, from its begin on, for another one of the same content: a disk may hang for one request.
constexpr uint64_t kJoinedReadPatience_ns = 50 * kMillisecond_ns;
// The cache of reads ([cache], cache/content_cache.h): what it may take in all.
constexpr uint64_t kCacheBytesMin = 16 * kMiB;
constexpr uint64_t kCacheBytesMax = 1 * kTiB;

// Control socket.
constexpr size_t kControlRequestBytesMax = 64 * kKiB;
constexpr size_t kControlConnectionsMax = 32;
constexpr uint64_t kControlRequestTimeout_ns = 10 * kSecond_ns;

}  // namespace twinblock::limits
