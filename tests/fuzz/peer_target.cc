// An engine whose peer is hostile: frames with right checksums and wrong contents, answers to what
// was not asked, connections that come and go at any moment, while clients and an operator use the
// node. Nothing that the peer sends ends the process, reaches outside a buffer or the disk, or
// writes to the disk of a primary; when the peer is gone, every client and every order is answered.
//
// Input: the node at the start, then operations.
#include <cerrno>

#include "clients.h"
#include "composed_frame.h"
#include "fuzz_node.h"
#include "hostile_peer.h"
#include "input.h"
#include "metadata_image.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kBlocks = kVolumeBytes / limits::kBlockBytes;
constexpr int kOperationsMax = 120;
// Of virtual time, in which the engine is given the chance to wait for the peer.
constexpr uint64_t kPatience_ns = 8 * kSecond_ns;

struct Start {
  bool blank;
  bool freeze;
  DataFound found;
  std::string name;
  metadata::NodeRecord record;
};

Start start_from(Input& input) {
  Start start{};
  const auto flags = input.take<uint16_t>();
  start.blank = (flags & 3) == 3;
  start.freeze = (flags & 4) != 0;
  start.found = (flags & 8) == 0 ? DataFound::kSome : (flags & 8192) == 0 ? DataFound::kNone : DataFound::kUnknown;
  start.name = (flags & 16) != 0 ? "beta" : "alpha";
  metadata::NodeRecord& record = start.record;
  record.volume_uuid[0] = 1;
  record.volume = "r0";
  record.node = start.name;
  record.size_bytes = kVolumeBytes;
  record.region_bytes = 64 * kKiB;
  record.generations.current = 11;
  record.generations.base = (flags & 32) != 0 ? 10 : 11;
  record.generations.history[0] = 9;
  record.term = record.heard_term = input.byte() % 4;
  record.primary = (flags & 64) != 0;
  record.peer_primary = (flags & 128) != 0;
  record.inconsistent = (flags & 256) != 0;
  record.dirty = (flags & 512) != 0;
  record.shared = (flags & 1024) != 0;
  record.all_dirty = (flags & 2048) != 0;
  record.held_data = (flags & 4096) != 0;
  return start;
}

std::unique_ptr<FuzzNode> make_node(const Start& start) {
  static const Config lasting = make_config(kVolumeBytes, "peer_timeout = \"500ms\"");
  static const Config freezing =
      make_config(kVolumeBytes, "peer_timeout = \"500ms\"\non_peer_loss = \"freeze\"");
  std::vector<std::byte> file;
  if (start.blank)
    file.resize(metadata::metadata_bytes_max(kVolumeBytes, start.record.region_bytes));
  else
    file = plain_file(start.record);
  Result<metadata::Loaded> loaded =
      metadata::load(metadata::reader_of(file), file.size(), kVolumeBytes, "r0.meta");
  require(loaded.ok(), "the harness's own metadata");
  loaded.value().record.region_bytes = start.record.region_bytes;
  auto node =
      std::make_unique<FuzzNode>(start.freeze ? freezing : lasting, start.name, std::move(file),
                                 std::move(loaded.value()), start.found);
  return node;
}

class Story {
 public:
  explicit Story(const Start& start)
      : node_(make_node(start)),
        peer_(*node_, start.name == "alpha" ? "beta" : "alpha", start.record) {
    // What a primary's disk is given comes from its clients.
    node_->data.submitted = [this](const DiskRequest& request) {
      if (request.op != DiskOp::kWrite && request.op != DiskOp::kZero) return;
      require(clients_.asked_for(request) || !engine().is_primary(),
              "the peer writes to the disk of a primary");
    };
    require(engine().start().ok(), "the harness's own start");
    node_->run(kMillisecond_ns);
  }
  ~Story() { node_->engine.reset(); }

  void operation(Input& input) {
    const uint8_t code = input.byte();
    const size_t which = code / 64;
    switch (code % 24) {
      case 0:
        peer_.dial(which);
        break;
      case 1:
        peer_.hang_up(which);
        break;
      case 2: {
        const uint8_t flags = input.byte();
        const uint8_t term = input.byte();
        peer_.take(static_cast<HostilePeer::Stance>(input.below(6)), flags,
                   term < 0xF0 ? term % 8 : ~uint64_t{0} - (term & 3));
        break;
      }
      case 3: {
        const uint8_t manner = input.byte();
        peer_.listens = (manner & 1) != 0;
        peer_.shakes_hands = (manner & 2) != 0;
        peer_.answers = (manner & 4) != 0;
        peer_.beats = (manner & 8) != 0;
        break;
      }
      case 4:
        peer_.send_hello(which);
        break;
      case 5:
        peer_.send_verdict(which, input.byte());
        break;
      case 6: {
        const uint8_t status = input.byte();
        peer_.answer(which, input.byte(), status < 0xC0 ? 0 : status & 0x3F, 0);
        break;
      }
      case 7: {
        const size_t skip = input.byte();
        peer_.answer(which, skip, 0, input.take<uint16_t>());
        break;
      }
      case 8:
        peer_.agree_to_promotion(which, input.byte() & 0x0F);
        break;
      case 9:
      case 10:
      case 11:
      case 12:
        peer_.send(which,
                   composed_frame(input, kVolumeBytes, peer_.next_sequence(), peer_.control()));
        break;
      case 13:
        peer_.send(which, input.bytes(input.byte()));
        break;
      case 14:
        node_->run(input.byte() * 50 * kMicrosecond_ns);
        break;
      case 15:
        node_->run(input.byte() * 5 * kMillisecond_ns);
        break;
      case 16:
      case 17:
        client(input);
        break;
      case 18:
      case 19:
        order(input);
        break;
      case 20:
        disk_fault(input);
        break;
      case 21: {
        const uint8_t number = input.byte();
        peer_.ask_to_join(which, number < 0xF0 ? number : ~uint64_t{0} - (number & 3));
        break;
      }
      case 22:
        peer_.retire(which, (input.byte() & 1) != 0);
        break;
      default:
        node_->run(kMillisecond_ns);
        node_->look();
        break;
    }
  }

  // The peer is gone and the disks are well: nobody waits any longer.
  void end() {
    peer_.vanish();
    for (MemoryDisk* disk : {&node_->data, &node_->metadata}) {
      disk->hung_until_ns = 0;
      disk->failures = 0;
    }
    node_->run(kPatience_ns / 2);
    if (node_->engine->volume_state() == VolumeState::kFrozen || clients_.outstanding() > 0)
      engine().orders().go_on_alone(false, orders_.reply());
    node_->run(kPatience_ns / 2);
    require(clients_.outstanding() == 0, "a client waits for a peer that is gone");
    require(orders_.waiting() == 0, "an order waits for a peer that is gone");
    node_->look();
    const std::vector<std::byte>& file = node_->metadata.contents;
    const auto again =
        metadata::load(metadata::reader_of(file), file.size(), kVolumeBytes, "r0.meta");
    require(again.ok(), "what the peer said makes the metadata unreadable",
            again.ok() ? "" : again.error().what);
  }

 private:
  Engine& engine() { return *node_->engine; }

  void client(Input& input) {
    const uint8_t code = input.byte();
    const uint64_t first = input.byte() % kBlocks;
    const uint64_t count = std::min<uint64_t>(1 + input.byte() % 32, kBlocks - first);
    const uint64_t offset = first * limits::kBlockBytes, length = count * limits::kBlockBytes;
    switch (code % 8) {
      case 0:
      case 1:
      case 2:
        clients_.submit(engine(), *node_->clock, ClientOp::kWrite, offset, length, code / 8);
        break;
      case 3:
        clients_.submit(engine(), *node_->clock, ClientOp::kZero, offset, length, code / 8);
        break;
      case 4:
      case 5:
        clients_.submit(engine(), *node_->clock, ClientOp::kRead, offset, length, code / 8);
        break;
      case 6:
        clients_.submit(engine(), *node_->clock, ClientOp::kFlush, 0, 0, 0);
        break;
      default:
        clients_.close(engine());
        break;
    }
  }

  void order(Input& input) {
    const uint8_t code = input.byte();
    const bool option = (code & 0x80) != 0;
    switch (code % 20) {
      case 16:
        engine().orders().set_compression(static_cast<Compression>((code >> 5) & 1 ? 1 : 2),
                                          1 + code / 128, orders_.reply());
        break;
      case 17:
      case 18:
        change_link(code);
        break;
      case 0:
        engine().orders().init(option, (code & 0x40) != 0, orders_.reply());
        break;
      case 1:
      case 2:
      case 3:
      case 4:
        engine().orders().promote(option, orders_.reply());
        break;
      case 5:
      case 6:
        engine().orders().demote(orders_.reply());
        break;
      case 7:
        engine().orders().verify(VerifyOrder::kCompare, orders_.reply());
        break;
      case 8:
        engine().orders().verify(VerifyOrder::kRepair, orders_.reply());
        break;
      case 9:
        engine().orders().verify(VerifyOrder::kStop, orders_.reply());
        break;
      case 10:
        engine().orders().resolve(option, (code & 0x40) != 0, orders_.reply());
        break;
      case 11:
        engine().orders().go_on_alone(false, orders_.reply());
        break;
      case 12:
        engine().orders().set_resync_pace(ResyncPace::kRate, 1 + input.take<uint64_t>() / 2,
                                          orders_.reply());
        break;
      case 13:
        engine().orders().set_resync_pace(option ? ResyncPace::kPause : ResyncPace::kResume,
                                          0, orders_.reply());
        break;
      default:
        engine().clients().let_go();
        break;
    }
  }

  void change_link(uint8_t code) {
    using Order = LinkOrder;
    static constexpr Order kOrders[] = {Order::kAdd, Order::kRemove, Order::kEnable,
                                        Order::kDisable};
    LinkConfig link;
    link.name = (code & 0x80) != 0 ? "backup" : "main";
    engine().orders().change_link(kOrders[(code >> 5) & 3], link, orders_.reply());
  }

  void disk_fault(Input& input) {
    static constexpr int kErrors[] = {EIO, ENOSPC};
    const uint8_t code = input.byte();
    MemoryDisk& disk = (code & 1) != 0 ? node_->metadata : node_->data;
    if ((code & 2) != 0) {
      disk.hung_until_ns = node_->scheduler.now_ns() + (code / 4) * 40 * kMillisecond_ns;
    } else {
      disk.error = kErrors[(code >> 2) & 1];
      disk.failures = code / 8;
    }
  }

  std::unique_ptr<FuzzNode> node_;
  HostilePeer peer_;
  Clients clients_;
  Orders orders_;
};

}  // namespace
}  // namespace twinblock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace twinblock::fuzz;
  Input input(data, size);
  Story story(start_from(input));
  for (int left = kOperationsMax; left > 0 && !input.empty(); --left) story.operation(input);
  story.end();
  return 0;
}
