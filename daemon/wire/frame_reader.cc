#include "wire/frame_reader.h"

#include <algorithm>
#include <cstring>

#include "base/checks.h"
#include "base/limits.h"
#include "wire/frame_checks.h"

namespace twinblock::wire {

void keep_apart(Frame& frame) {
  const size_t size = frame.payload.size();
  if (frame.keeps_payload == nullptr || size >= frame.keeps_payload->size / 2) return;
  auto own = std::make_shared<Slab>();
  own->bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  own->size = size;
  std::memcpy(own->bytes.get(), frame.payload.data(), size);
  frame.payload = {own->bytes.get(), size};
  frame.keeps_payload = std::move(own);
}

// Makes sure that the slab has room for the rest of the frame that has begun. A slab that only this
// reader holds is used again; one whose payloads are still on their way to the disk is left to
// them.
void FrameReader::make_room() {
  const size_t unread = end_ - begin_;
  const size_t needed = have_header_ ? header_.payload_bytes : sizeof(FrameHeader);
  TB_CHECK(needed <= limits::kReceiveSlabBytes, "frame lengths are bounded by check_header");
  const bool ours_alone = slab_ && slab_.use_count() == 1;
  if (ours_alone && unread == 0) begin_ = end_ = 0;
  if (slab_ && slab_->size - begin_ >= needed && end_ < slab_->size) return;
  if (ours_alone) {
    std::memmove(slab_->bytes.get(), slab_->bytes.get() + begin_, unread);
  } else {
    std::shared_ptr<Slab> fresh = pool_.take();
    if (unread > 0) std::memcpy(fresh->bytes.get(), slab_->bytes.get() + begin_, unread);
    slab_ = std::move(fresh);
  }
  begin_ = 0;
  end_ = unread;
}

FrameReader::Outcome FrameReader::parse(Frame& frame) {
  if (!have_header_) {
    if (end_ - begin_ < sizeof(FrameHeader)) return Outcome::kNothing;
    const std::span<const std::byte, sizeof(FrameHeader)> bytes(slab_->bytes.get() + begin_,
                                                                sizeof(FrameHeader));
    CheckedHeader checked = check_header(bytes, volume_bytes_);
    if (!checked.error.empty()) {
      error_ = std::move(checked.error);
      error_came_as_sent_ = checked.came_as_sent;
      return Outcome::kError;
    }
    header_ = checked.header;
    have_header_ = true;
    begin_ += sizeof(FrameHeader);
  }
  if (end_ - begin_ < header_.payload_bytes) return Outcome::kNothing;
  frame.header = header_;
  frame.payload = std::span(slab_->bytes.get() + begin_, header_.payload_bytes);
  if (!check_payload(header_, frame.payload)) {
    error_ = std::string(frame_type_name(header_.type)) + " frame with a wrong payload checksum";
    error_came_as_sent_ = false;
    return Outcome::kError;
  }
  error_ = payload_problem(header_, frame.payload);
  if (!error_.empty()) {
    error_came_as_sent_ = true;
    return Outcome::kError;
  }
  if (header_.payload_bytes > 0)
    frame.keeps_payload = slab_;
  else
    frame.keeps_payload.reset();
  begin_ += header_.payload_bytes;
  have_header_ = false;
  return Outcome::kFrame;
}

FrameReader::Outcome FrameReader::next(Connection& connection, Frame& frame) {
  frame.keeps_payload.reset();
  for (;;) {
    const Outcome outcome = parse(frame);
    if (outcome == Outcome::kFrame) {
      frame.arrived_ns = connection.arrived_ns();
      frame.arrived_alone = last_read_bytes_ <= sizeof(FrameHeader) && begin_ == end_;
    }
    if (outcome != Outcome::kNothing) return outcome;
    if (reads_left_ == 0) return Outcome::kNothing;
    make_room();
    const size_t room = std::min(slab_->size - end_, read_bytes_max_);
    const size_t got = connection.read(std::span(slab_->bytes.get() + end_, room));
    // A short read has emptied the socket: asking again would only cost a system call.
    reads_left_ = got < room ? 0 : reads_left_ - 1;
    if (got == 0) return Outcome::kNothing;
    end_ += got;
    last_read_bytes_ = got;
    received_bytes_total_ += got;
  }
}

}  // namespace twinblock::wire
