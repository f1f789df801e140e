// A node that was rolled back, and its promotion: why it is not promoted just so, and that what it advises works. An engine on
// virtual parts, without its peer, and a witness in writing.
#include "volume_consent_support.h"

namespace twinblock::fuzz {
namespace {

constexpr uint64_t kVolumeBytes = 256 * kKiB;
constexpr uint64_t kBefore = 11, kOfSource = 12;

// The copy is there at once.
class ReadyCopies final : public Copies {
 public:
  [[nodiscard]] bool can(CopyStep) const override { return true; }
  void begin(CopyStep, const std::string&, std::function<void(Status)> done) override {
    scheduler->after(kMillisecond_ns, nullptr, [done = std::move(done)] { done(ok_status()); });
  }
  [[nodiscard]] std::string place(CopyStep, const std::string&) const override { return "/alpha.img.before-resync"; }

  sim::Scheduler* scheduler = nullptr;
};

class RolledBack : public testing::Test {
 protected:
  ~RolledBack() override {
    if (node_) node_->engine.reset();
  }

  // What beta had gone on with alone was on its way here when it was lost.
  void begin(WitnessKind kind) {
    config_.witness.kind = kind;
    config_.witness.endpoints = {"http://10.0.0.3:2379"};
    config_.witness.timeout_ns = kSecond_ns;
    metadata::NodeRecord record = plain_record("alpha", {kVolumeBytes, 64 * kKiB});
    record.way_back.generations.current = record.way_back.generations.base = kBefore;
    record.way_back.taken_s = 1'700'000'000;
    record.generations.current = record.generations.base = kOfSource;
    record.inconsistent = record.dirty = record.all_dirty = record.peer_primary = true;
    witness_.reading = {WitnessEntry{metadata::format_uuid(record.volume_uuid), kOfSource, "beta"}, 5};
    const bool asks = kind == WitnessKind::kEtcd;
    node_ = plain_node(config_, record, asks ? &witness_ : nullptr, &copies_, 7);
    witness_.scheduler = copies_.scheduler = &node_->scheduler;
    ASSERT_TRUE(node_->engine->start().ok());
    node_->run(limits::kLeaseMax_ns + config_.peer_timeout_ns);
    node_->engine->orders().roll_back(keep());
    node_->run(kSecond_ns);
    ASSERT_TRUE(said_ && said_->ok()) << said_->error().what;
  }
  OperatorOrders::Reply keep() {
    said_.reset();
    return [this](Result<std::string> said) { said_ = std::move(said); };
  }
  bool promoted(Promotion::Word word) {
    node_->engine->orders().promote(word, keep());
    node_->run(30 * kSecond_ns);
    return said_ && said_->ok();
  }
  void expect_that_it_takes_a_word(const std::string& order) {
    EXPECT_NE(said_->value().find("it lacks what beta has acknowledged since"), std::string::npos) << said_->value();
    EXPECT_NE(said_->value().find("To go on with it: " + order + ";"), std::string::npos) << said_->value();
    ASSERT_FALSE(promoted({}));
    const Error& why = said_->error();
    EXPECT_NE(why.what.find("was rolled back to what it was at"), std::string::npos) << why.what;
    EXPECT_NE(why.what.find("lacks what beta has acknowledged since"), std::string::npos) << why.what;
    EXPECT_NE(why.action.find("to go on without that: " + order + ";"), std::string::npos) << why.action;
    EXPECT_NE(why.action.find("twinblock resolve r0"), std::string::npos) << why.action;
    EXPECT_FALSE(node_->engine->status().promotion.forgot) << "its host was not started anew";
  }

  Config config_ = make_config(kVolumeBytes);
  WrittenWitness witness_;
  ReadyCopies copies_;
  std::unique_ptr<FuzzNode> node_;
  std::optional<Result<std::string>> said_;
};

TEST_F(RolledBack, BesideAnEtcdThatKnowsOfThePeerTheOrderNeedsItsWordAsWell) {
  begin(WitnessKind::kEtcd);
  expect_that_it_takes_a_word("twinblock promote r0 --peer-is-dead --without-witness");
  EXPECT_FALSE(promoted({true})) << "it asks, and is told that beta went on";
  EXPECT_TRUE(promoted({true, true})) << said_->error().what;
}

TEST_F(RolledBack, WithoutAWitnessTheWordForThePeersDeathIsEnough) {
  begin(WitnessKind::kNone);
  expect_that_it_takes_a_word("twinblock promote r0 --peer-is-dead");
  EXPECT_TRUE(promoted({true})) << said_->error().what;
}

}  // namespace
}  // namespace twinblock::fuzz
