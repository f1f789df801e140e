// An operator's orders about links, and what has become of them: an engine on virtual parts, and the fuzzers' peer.
#pragma once

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "volume_beside_peer_support.h"

namespace twinblock::fuzz {

class LinkOrdersTest : public BesidePeerTest {
 protected:
  LinkOrdersTest() : BesidePeerTest(2) {}
  // What the operator here is told.
  Result<std::string> order_here(LinkOrder order, uint64_t rate_bits_per_s = 0) {
    give(order, rate_bits_per_s);
    return heard();
  }
  Result<std::string> heard() {
    for (int i = 0; i < 100 && !said_; ++i) node_->run(10 * kMillisecond_ns);
    return said_.value_or(Error{"nothing", "", 0});
  }
  void give(LinkOrder order, uint64_t rate_bits_per_s = 0) { give(order, LinkConfig{"backup", {}, rate_bits_per_s}); }
  void give(LinkOrder order, const LinkConfig& link) {
    said_.reset();
    node_->engine->orders().change_link(order, link, [this](const Result<std::string>& result) { said_ = result; });
  }
  // The peer's answer, over whichever line it was asked.
  void answer(uint32_t status) {
    constexpr uint32_t kWhy_bytes = 4;
    node_->run(10 * kMillisecond_ns);
    for (const size_t line : {0, 1, 2}) peer_->answer(line, 0, status, status != 0 ? kWhy_bytes : 0);
  }
  // What the operator here is told of an order that the peer refuses.
  Result<std::string> order_refused(LinkOrder order) {
    peer_->answers = false;
    give(order);
    answer(EPERM);
    return heard();
  }
  // The peer's process is gone.
  void lose_peer() {
    peer_->vanish();
    for (int i = 0; i < 100 && stands(); ++i) node_->run(kSecond_ns);
    ASSERT_FALSE(stands());
    peer_.reset();
  }
  // Another one is there: it listens on all links of the file, and hears orders.
  void begin_anew() {
    peer_ = std::make_unique<HostilePeer>(*node_, "beta", record_);
    note_answers();
    told_.clear();
    told_numbers_.clear();
    peer_->hears_payload = [this](const wire::FrameHeader& header, std::span<const std::byte> payload) {
      if (header.type != static_cast<uint8_t>(wire::FrameType::kLinkChange)) return;
      wire::LinkChangePayload change{};
      std::memcpy(&change, payload.data(), sizeof change);
      told_.push_back(static_cast<wire::LinkChange>(change.change));
      told_numbers_.push_back(change.number);
    };
    peer_->take(HostilePeer::Stance::kSame, 0, 2);
  }
  void wait_for_session() {
    for (int i = 0; i < 100 && !stands(); ++i) node_->run(kSecond_ns);
    ASSERT_TRUE(stands());
    node_->run(kSecond_ns);
  }
  // Given while the peer is away; the one that comes then is told of it, and answers nothing by itself.
  void give_while_parted(LinkOrder order) {
    lose_peer();
    give(order);
    begin_anew();
    peer_->answers = false;
    wait_for_session();
  }
  // It dials "backup", the only link that works.
  void dial_backup() {
    sim::LinkFaults faults;
    faults.cut = {true, true};
    node_->network.set_faults("main", faults);
    for (int i = 0; i < 10 && !stands(); ++i) {
      peer_->dial(1);
      node_->run(kSecond_ns);
    }
  }
  [[nodiscard]] std::vector<StatusView::Link> links() const { return node_->engine->status().links; }
  // The answer that the operator's node there gets; ETIMEDOUT: none.
  uint32_t order_there(wire::LinkChange change, uint64_t number, const std::vector<std::string>& addresses = {},
                       const std::string& name = "backup") {
    wire::LinkChangePayload payload{};
    payload.change = static_cast<uint32_t>(change);
    payload.number = number;
    wire::set_name(payload.name, name);
    for (size_t i = 0; i < addresses.size(); ++i) wire::set_name(payload.address[i], addresses[i]);
    wire::FrameHeader header = wire::to_header(wire::LinkChangeFrame{});
    const uint64_t asked = peer_->next_sequence();
    wire::set_request(header, asked);
    wire::set_order(header, ++*peer_->control());
    for (const size_t line : {0, 1, 2}) {  // of those that it had, the ones that are left
      peer_->send(line, wire::seal(header, wire::bytes_of(payload)));
      peer_->send(line, wire::bytes_of(payload));
    }
    return answer_to(asked);
  }

  std::optional<Result<std::string>> said_;  // to the operator here, of what was ordered last
  std::vector<wire::LinkChange> told_;       // to the peer that began anew
  std::vector<uint64_t> told_numbers_;       // … of each
};

}  // namespace twinblock::fuzz
