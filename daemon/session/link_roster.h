// Which links the session has, and which of them it may use, as the file says at first, and the operator
// later: those are listened on, and joined or dialled; over the others nothing goes any more. But a peer that
// does not agree, or does not know it yet, may have no other than one that was disabled or removed here: those
// are listened on, too, and a session may begin over them. Owned by the session; loop thread only.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "session/handshake.h"

namespace twinblock {

class LinkRoster {
 public:
  struct Parts {
    Links& links;
    LinkJoins& joins;
    Dialler& dialler;
    Handshake& handshake;
  };
  // With the links of the file.
  LinkRoster(const SessionEnvironment& env, SessionSteps& session, const Parts& parts);

  // Listens on all of them, and on those that are added from now on. Where some can't be listened on, as their address
  // is not there just now, or is taken, they are tried again for as long as they are not: the others carry what there
  // is. Where none can, the error names an address.
  Status start();

  // At run time. Errors change nothing.
  Status add(const LinkConfig& config);
  Status remove(const std::string& name);
  // … at the peer as well: a link that was removed is listened on no more. If it is back, as the peer began a
  // session over it, it is removed once more.
  void forget(const std::string& name);
  Status enable(const std::string& name, bool enabled);
  // Whether the nodes could still talk without this link.
  [[nodiscard]] bool can_spare(const std::string& name) const;

 private:
  Status listen(Link& link);
  void listen_again();
  void listen_as_before(Link& link);
  [[nodiscard]] Link* find_left(const std::string& name) const;
  [[nodiscard]] std::vector<Link*> in_the_way_of(const LinkConfig& config) const;
  [[nodiscard]] bool is_found_without(const std::vector<Link*>& gone, const LinkConfig& added) const;
  [[nodiscard]] Status may_use_one_more() const;
  void try_link(Link& link);
  void close(Link& link);

  const SessionEnvironment& env_;
  SessionSteps& session_;
  const Parts parts_;
  bool started_ = false;
  std::set<std::string> unheard_;  // links by name that nobody can be heard on yet; of those that were removed, too
  const std::unique_ptr<Timer> timer_;
};

}  // namespace twinblock
