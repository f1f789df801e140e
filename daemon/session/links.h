// The links between the nodes and the connections over them: which there are, which of them carry
// the session, and what is said of them. It decides nothing; whoever closes or opens one is another
// part of the session. Owned by the session; loop thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "session/channel.h"
#include "session/link.h"
#include "session/link_view.h"
#include "telemetry/latency.h"

namespace twinblock {

class Links {
 public:
  Links(const SessionEnvironment& env, ChannelOwner& owner);
  ~Links();

  // --- links, in the order of the configuration
  Link& add(const LinkConfig& config);
  // It is in nobody's list any more; a session that the peer begins over it puts it back, as one that is disabled.
  void leave(const Link& link);
  // It lives on until its callbacks have returned (see sweep). One that was left, too.
  void remove(const Link& link);
  [[nodiscard]] const std::vector<std::unique_ptr<Link>>& left() const { return left_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Link>>& all() const { return links_; }
  [[nodiscard]] Link* find(const std::string& name) const;
  [[nodiscard]] bool has(const std::string& name) const { return find(name) != nullptr; }
  [[nodiscard]] bool has_enabled(const std::string& name) const;
  [[nodiscard]] const LinkConfig& config(const std::string& name) const;  // must exist
  [[nodiscard]] size_t count() const { return links_.size(); }
  [[nodiscard]] size_t count_enabled() const;
  [[nodiscard]] std::string names() const;

  // --- connections
  Channel& open(Link& link, std::unique_ptr<Connection> connection, bool dialled,
                Channel::Purpose purpose);
  // Closes it; it lives on as a name until its callbacks have returned (see sweep).
  void discard(Channel& channel);
  // Deletes what was removed and discarded.
  void sweep();
  // Those of which `wanted` is true: a list of its own, as what is done with one may close others.
  template <typename Wanted>
  [[nodiscard]] std::vector<Channel*> channels(Wanted&& wanted) const {
    std::vector<Channel*> found;
    for (const auto& channel : channels_)
      if (wanted(*channel)) found.push_back(channel.get());
    return found;
  }
  // Connections that are not part of the session (yet).
  [[nodiscard]] size_t count_pending() const { return channels_.size() - up_.size(); }

  // --- those of the session
  // In the order of the links.
  [[nodiscard]] const std::vector<Channel*>& up() const { return up_; }
  [[nodiscard]] Channel* of(uint64_t incarnation) const;  // null: that is gone
  void mark_up(Channel& channel);
  // Keeps what it counted, and discards it.
  void mark_down(Channel& channel);
  // … and not for another one to take its place: says so.
  void tell_lost(Link& link, const std::string& reason);
  // The session is lost, none is up any more: the links begin anew.
  void restart();
  // Backpressure: the peer waits as soon as its window is full.
  void pause_reading(bool paused);
  [[nodiscard]] bool paused() const { return paused_; }

  // Of one connection; a connection that is gone has nothing left to send.
  [[nodiscard]] uint64_t queued_bytes_total(uint64_t incarnation) const;
  [[nodiscard]] uint64_t sent_bytes_total(uint64_t incarnation) const;
  // Queued on all links and not taken by the kernel yet.
  [[nodiscard]] uint64_t unsent_bytes() const;
  // Together, as far as known.
  [[nodiscard]] uint64_t rate_bytes_per_s() const;
  void update_rates(uint64_t now_ns);

  // --- for status
  // `refused`: the peer takes no connection at all.
  [[nodiscard]] std::vector<LinkView> views(bool refused) const;
  [[nodiscard]] std::vector<LatencyView::Link> latency(Window window) const;
  // Whether somebody is there at the peer's end of a link, although there is no session.
  [[nodiscard]] bool peer_answers() const;
  [[nodiscard]] std::string peer_address() const;

  // What connections have gone through, for who checks that.
  [[nodiscard]] const ChannelSteps& steps() const { return steps_; }

 private:
  void list_up();
  [[nodiscard]] LinkView view(const Link& link, bool refused, uint64_t now_ns) const;

  const SessionEnvironment& env_;
  ChannelOwner& owner_;
  ChannelSteps steps_;  // before those who count in it
  std::vector<std::unique_ptr<Link>> links_;
  std::vector<std::unique_ptr<Link>> left_;  // taken out of the list, and still listened on
  std::vector<std::unique_ptr<Link>> removed_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<std::unique_ptr<Channel>> buried_;
  std::vector<Channel*> up_;
  bool paused_ = false;
};

}  // namespace twinblock
