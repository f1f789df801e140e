// Ends NBD clients' connections when the process is asked to stop. nbdkit waits on SIGTERM until
// its clients leave, and an attached device never does, so that a stop would end in SIGKILL and
// lose the orderly goodbye to the peer.
#pragma once

#include <string>

namespace twinblock {

// From now on SIGTERM, SIGINT, SIGQUIT and SIGHUP close the receiving side of every connection that
// came in at `socket_path`: requests that were received are answered, then the client sees the end.
// The handlers that were there run when there is no such connection, at stop_now(), or at the second
// signal: nbdkit answers what it reads after its own with an error, which a client that waits for the
// next process may not see. To be called once, after they were installed.
void hang_up_on_stop(const std::string& socket_path);
// The clients are gone, or are waited for no longer: the handlers run. Any thread, after stop_requested().
void stop_now();
// Whether such a signal has come. Any thread.
bool stop_requested();
// Closes the receiving side of the connections that process `pid` has made: what was received is answered. How
// many there were. Any thread, after hang_up_on_stop().
int hang_up_on(int pid);
// Also ends the sending to those clients, for the one that takes no answers: what it was not told
// by now it will not be told. Any thread, after hang_up_on_stop().
void cut_off_clients();

}  // namespace twinblock
