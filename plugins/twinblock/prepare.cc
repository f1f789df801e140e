#include "prepare.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/crc32c.h"

namespace twinblock {

PreparedWrite::PreparedWrite(const Engine& engine, std::span<const std::byte> data)
    : all_zero_(all_zero(data)), piece_bytes_(engine.wire_piece_bytes()) {
  if (all_zero_) return;
  const size_t count = (data.size() + piece_bytes_ - 1) / piece_bytes_;
  if (count > few_.size()) many_.resize(count);
  pieces_ = count > few_.size() ? std::span(many_) : std::span(few_).first(count);
  for (WirePiece& piece : pieces_) {
    piece.payload = data.first(std::min<size_t>(piece_bytes_, data.size()));
    piece.crc = crc32c(piece.payload);
    data = data.subspan(piece.payload.size());
  }
}

void PreparedWrite::describe(ClientRequest& request) const {
  request.all_zero = all_zero_;
  request.piece_bytes = piece_bytes_;
  request.pieces = pieces_;
}

}  // namespace twinblock
