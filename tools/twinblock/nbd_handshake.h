// The client's half of NBD's fixed newstyle negotiation, up to the moment at which the kernel can
// take the socket over. Pure: bytes in, bytes out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace twinblock {

// What the server says of the export.
struct NbdExport {
  uint64_t size_bytes = 0;
  uint16_t flags = 0;  // transmission flags as on the wire, NBD_FLAG_… of <linux/nbd.h>
};

class NbdHandshake {
 public:
  // `export_name` is what the server is asked for.
  explicit NbdHandshake(std::string export_name) : export_name_(std::move(export_name)) {}

  // Takes what came from the server, in pieces of any size, and returns what to send back, which
  // may be nothing. An error (kExitRefused) when the server refuses, with its own words, or does
  // not speak the protocol; the connection is of no use then.
  Result<std::string> take(std::string_view bytes);
  // From now on the connection carries requests.
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const NbdExport& result() const { return export_; }

 private:
  [[nodiscard]] Result<std::string> answer_greeting();
  [[nodiscard]] Status take_reply(uint32_t type, std::string_view payload);

  std::string export_name_;
  std::string received_;  // not looked at yet
  bool greeted_ = false;
  bool described_ = false;  // size and flags have come
  bool done_ = false;
  NbdExport export_;
};

}  // namespace twinblock
