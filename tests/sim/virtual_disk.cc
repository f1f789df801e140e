#include "virtual_disk.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/limits.h"
#include "base/units.h"
#include "report.h"

namespace twinblock::sim {
namespace {

bool is_write(DiskOp op) { return op == DiskOp::kWrite || op == DiskOp::kZero; }

bool flushes(const DiskRequest& request) { return request.op == DiskOp::kFlush || request.fua; }

}  // namespace

VirtualDisk::VirtualDisk(Scheduler& scheduler, Random random, std::string name, uint64_t size_bytes)
    : scheduler_(scheduler),
      random_(random),
      name_(std::move(name)),
      fast_zero_(random_.chance(0.8)),
      knows_extents_(random_.chance(0.8)),
      extent_bytes_(Random(random_).chance(0.5) ? kSectorBytes : limits::kBlockBytes),
      slow_flush_(random_.chance(0.2)),
      cache_(size_bytes),
      changed_ns_((size_bytes + limits::kBlockBytes - 1) / limits::kBlockBytes,
                  scheduler_.now_ns()),
      medium_(size_bytes),
      unflushed_(size_bytes / kSectorBytes),
      cache_random_(Random(random_).fork()),
      cache_can_be_dropped_(cache_random_.chance(0.4)) {}

void VirtualDisk::attach(ProcessPtr process, bool leaves_trace) {
  process_ = std::move(process);
  errors_ = errors_of_room_ = 0;
  flush_error_ = 0;
  if (lost_.empty()) return;
  const double share = std::array{0.0, 0.5, 1.0}.at(cache_random_.below(3));
  const std::vector<size_t> deceiving = leaves_trace ? deceiving_sectors() : std::vector<size_t>();
  const size_t trace = deceiving.empty() ? ~size_t{0} : deceiving[cache_random_.below(deceiving.size())];
  for (const size_t sector : std::set<size_t>(lost_))
    if (cache_random_.chance(share) && sector != trace) evict(sector);
}

// The kernel drops a clean page; the next reader gets what the medium holds.
void VirtualDisk::evict(size_t sector) {
  lost_.erase(sector);
  if (!unflushed_[sector].empty()) return;  // written again since
  const uint64_t offset = sector * kSectorBytes;
  std::memcpy(cache_.data() + offset, medium_.data() + offset, kSectorBytes);
  changed(offset, kSectorBytes);
}

bool VirtualDisk::forget_cache() {
  if (holds_nothing_) return true;
  if (!cache_can_be_dropped_ || faults.flush_error_chance > 0) return false;
  persist(~uint64_t{0}, 0);
  for (const size_t sector : std::set<size_t>(lost_)) evict(sector);
  return true;
}

bool VirtualDisk::memory_deceives(std::span<const ByteRange> ranges) const {
  if (holds_nothing_ || hides_medium_ || ranges.empty()) return false;
  if (faults.read_error_chance == 1) return true;
  const std::vector<size_t> deceiving = deceiving_sectors();
  return std::any_of(deceiving.begin(), deceiving.end(), [&](size_t sector) {
    const uint64_t at = sector * kSectorBytes;
    return std::any_of(ranges.begin(), ranges.end(), [at](const ByteRange& range) {
      return range.begin_bytes <= at && at < range.end_bytes;
    });
  });
}

bool VirtualDisk::write_now(uint64_t offset_bytes, std::span<const std::byte> bytes) {
  if (faults.full || faults.write_error_chance + faults.flush_error_chance > 0) return false;
  std::memcpy(cache_.data() + offset_bytes, bytes.data(), bytes.size());
  std::memcpy(medium_.data() + offset_bytes, bytes.data(), bytes.size());
  written_ = true;
  changed(offset_bytes, bytes.size());
  return true;
}

Status VirtualDisk::grow(uint64_t bytes, bool extend) {
  if (bytes > size_bytes() && !extend)
    return Error{name_ + " is too small", "enlarge it", ENOSPC};
  if (bytes > size_bytes()) enlarge(bytes);
  return ok_status();
}

void VirtualDisk::enlarge(uint64_t size_bytes, std::byte with) {
  cache_.resize(size_bytes, with);
  medium_.resize(size_bytes, with);
  unflushed_.resize(size_bytes / kSectorBytes);
  changed_ns_.resize((size_bytes + limits::kBlockBytes - 1) / limits::kBlockBytes,
                     scheduler_.now_ns());
}

void VirtualDisk::restore(std::span<const std::byte> contents, uint64_t end_bytes) {
  const uint64_t bytes = std::min<uint64_t>({contents.size(), end_bytes, size_bytes()}) / kSectorBytes * kSectorBytes;
  for (size_t sector = 0; sector < bytes / kSectorBytes; ++sector) {
    unflushed_[sector].clear();
    lost_.erase(sector);
  }
  std::erase_if(dirty_sectors_, [bytes](size_t sector) { return sector < bytes / kSectorBytes; });
  std::memcpy(cache_.data(), contents.data(), bytes);
  std::memcpy(medium_.data(), contents.data(), bytes);
  written_ = true;
  changed(0, bytes);
}

std::vector<size_t> VirtualDisk::deceiving_sectors() const {
  std::vector<size_t> found;
  for (const size_t sector : lost_) {
    const uint64_t offset = sector * kSectorBytes;
    if (unflushed_[sector].empty() &&
        std::memcmp(cache_.data() + offset, medium_.data() + offset, kSectorBytes) != 0)
      found.push_back(sector);
  }
  return found;
}

void VirtualDisk::process_ended() {
  // The kernel goes on with what it was given, or was about to: any part of it.
  for (auto& [id, pending] : pending_) {
    if (!is_write(pending.request->op)) continue;
    const uint64_t sectors = pending.request->length_bytes / kSectorBytes;
    const uint64_t part = random_.chance(0.5) ? sectors : random_.between(0, sectors);
    apply(pending, part * kSectorBytes);
    if (pending.write) pending.write->done_number = ++done_number_;
  }
  if (fails_with_process_)
    for (const auto& [id, pending] : pending_)
      if (flushes(*pending.request)) persist(pending.flush_mark, 0.5);
  fails_with_process_ = false;
  pending_.clear();
  under_way().forget();
  holds_next_flush_ = false;
  held_flush_ = 0;
  process_.reset();
}

void VirtualDisk::power_lost() {
  const uint64_t manner = random_.below(4);  // all lost, all kept, by page, by sector
  size_t page = ~size_t{0};
  double share = 0;
  for (const size_t sector : dirty_sectors_) {
    std::vector<Version>& versions = unflushed_[sector];
    if (manner == 3 || sector / 8 != page) share = random_.unit();
    page = sector / 8;
    size_t kept = manner == 0 ? 0 : versions.size();
    if (manner >= 2) kept = static_cast<size_t>(share * static_cast<double>(versions.size() + 1));
    if (kept > 0) copy_to_medium(sector, versions[kept - 1]);
    versions.clear();
  }
  dirty_sectors_.clear();
  lost_.clear();
  holds_nothing_ = true;
  hides_medium_ = false;
  cache_ = medium_;
  changed(0, cache_.size());
}

DiskImage VirtualDisk::after_kill(Random& random) const {
  DiskImage image(cache_);
  for (const auto& [id, pending] : pending_) overwrite(image, pending, random);
  return image;
}

DiskImage VirtualDisk::after_power_loss(Random& random) const {
  DiskImage image(medium_);
  const uint64_t manner = random.below(4);  // as in power_lost()
  size_t page = ~size_t{0};
  double share = 0;
  for (const size_t sector : dirty_sectors_) {
    const std::vector<Version>& versions = unflushed_[sector];
    if (manner == 3 || sector / 8 != page) share = random.unit();
    page = sector / 8;
    size_t kept = manner == 0 ? 0 : versions.size();
    if (manner >= 2) kept = static_cast<size_t>(share * static_cast<double>(versions.size() + 1));
    if (kept > 0) image.put(sector * kSectorBytes, kSectorBytes, versions[kept - 1].data());
  }
  if (manner == 0) return image;
  for (const auto& [id, pending] : pending_) overwrite(image, pending, random);
  return image;
}

// The first sectors of a write that is on its way.
void VirtualDisk::overwrite(DiskImage& image, const Pending& pending, Random& random) {
  const DiskRequest& request = *pending.request;
  if (!is_write(request.op) || random.chance(0.3)) return;
  const uint64_t length = std::max(
      pending.applied_bytes, random.between(0, request.length_bytes / kSectorBytes) * kSectorBytes);
  image.put(request.offset_bytes, length, request.op == DiskOp::kWrite ? request.data : nullptr);
}

void VirtualDisk::corrupt(uint64_t offset_bytes, uint64_t length_bytes) {
  for (auto* bytes : {&cache_, &medium_})
    for (uint64_t at = offset_bytes; at < offset_bytes + length_bytes; ++at)
      (*bytes)[at] ^= std::byte{0x5A};
  changed(offset_bytes, length_bytes);
}

void VirtualDisk::changed(uint64_t offset_bytes, uint64_t length_bytes) {
  const uint64_t end = offset_bytes + length_bytes;
  for (uint64_t block = offset_bytes / limits::kBlockBytes; block * limits::kBlockBytes < end;
       ++block)
    changed_ns_[block] = scheduler_.now_ns();
}

void VirtualDisk::spoil(uint64_t offset_bytes, uint64_t length_bytes) {
  for (uint64_t at = offset_bytes; at < offset_bytes + length_bytes; at += kSectorBytes)
    spoiled_[at / kSectorBytes] = kForEver_ns;
}

void VirtualDisk::unspoil() {
  mend_spoiled(0, size_bytes());
  unspoiled_ns_ = scheduler_.now_ns();
}

void VirtualDisk::mend_spoiled(uint64_t offset_bytes, uint64_t length_bytes) {
  const auto end = spoiled_.lower_bound((offset_bytes + length_bytes) / kSectorBytes);
  for (auto at = spoiled_.lower_bound(offset_bytes / kSectorBytes); at != end; ++at)
    at->second = std::min(at->second, scheduler_.now_ns());
}

bool VirtualDisk::was_spoiled(uint64_t offset_bytes, uint64_t length_bytes, uint64_t since_ns) const {
  const auto end = spoiled_.lower_bound((offset_bytes + length_bytes + kSectorBytes - 1) / kSectorBytes);
  return std::any_of(spoiled_.lower_bound(offset_bytes / kSectorBytes), end,
                     [since_ns](const auto& each) { return each.second >= since_ns; });
}

bool VirtualDisk::writing() const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [](const auto& each) { return is_write(each.second.request->op); });
}

void VirtualDisk::copy_to_medium(size_t sector, const Version& version) {
  std::byte* target = medium_.data() + sector * kSectorBytes;
  if (const std::byte* data = version.data())
    std::memcpy(target, data, kSectorBytes);
  else
    std::memset(target, 0, kSectorBytes);
}

// Everything that was done by `mark` gets onto the medium, or, when a flush fails, is forgotten by
// the kernel with this chance: clean in the cache and nowhere else.
void VirtualDisk::persist(uint64_t mark, double lost_chance) {
  std::erase_if(dirty_sectors_, [&](const size_t sector) {
    std::vector<Version>& versions = unflushed_[sector];
    size_t covered = versions.size();
    while (covered > 0 && versions[covered - 1].write->done_number > mark) --covered;
    if (covered > 0) {
      const bool lost = lost_chance > 0 && random_.chance(lost_chance);
      if (lost) {
        lost_.insert(sector);
      } else {
        copy_to_medium(sector, versions[covered - 1]);
        lost_.erase(sector);
      }
      versions.erase(versions.begin(), versions.begin() + static_cast<std::ptrdiff_t>(covered));
    }
    return versions.empty();
  });
}

// All of it after another, as a disk with one head does.
uint64_t VirtualDisk::slow_service_ns(const DiskRequest& request) {
  const uint64_t zeroed = request.op == DiskOp::kZero ? request.length_bytes : 0;
  const uint64_t flushed = flushes(request) ? dirty_sectors_.size() * kSectorBytes : 0;
  return random_.between(faults.slow_ns / 5, faults.slow_ns) +
         zeroed * faults.slow_ns / kSlowZeroBytes + flushed * faults.slow_ns / kSlowFlushBytes;
}

// Like the counters of a device: they stand still while it hangs, or has nothing to do.
uint64_t VirtualDisk::device_work() const {
  const uint64_t now = scheduler_.now_ns();
  const bool works = faults.hung_until_ns <= now && !pending_.empty();
  if (works) device_work_ = now;
  return device_work_;
}

uint64_t VirtualDisk::service_ns(const DiskRequest& request) {
  const DiskOp op = request.op;
  if (faults.slow_ns > 0) return slow_service_ns(request);
  uint64_t ns = op == DiskOp::kFlush ? random_.spread(50 * kMicrosecond_ns, 10 * kMillisecond_ns)
                                     : random_.spread(5 * kMicrosecond_ns, kMillisecond_ns);
  if (op == DiskOp::kFlush && slow_flush_)
    ns = random_.spread(kMillisecond_ns, 200 * kMillisecond_ns);
  if (random_.chance(0.01)) ns += random_.spread(kMillisecond_ns, 100 * kMillisecond_ns);
  if (faults.extra_delay_ns > 0) ns += random_.below(faults.extra_delay_ns);
  return ns;
}

// Both replicas end the same only if overlapping writes never run together (invariant 4).
void VirtualDisk::check_overlap(const DiskRequest& request) const {
  if (!is_write(request.op)) return;
  for (const auto& [id, pending] : pending_) {
    const DiskRequest& other = *pending.request;
    if (!is_write(other.op) || other.offset_bytes >= request.offset_bytes + request.length_bytes ||
        request.offset_bytes >= other.offset_bytes + other.length_bytes)
      continue;
    Report::violation("overlapping writes are in flight at " + name_ + ": offset " +
                      std::to_string(request.offset_bytes) + ", " +
                      std::to_string(request.length_bytes) + " bytes, and offset " +
                      std::to_string(other.offset_bytes) + ", " +
                      std::to_string(other.length_bytes) + " bytes");
  }
}

// They lie in the order in which they were submitted.
uint64_t VirtualDisk::flushing_since_ns() const {
  for (const auto& [id, pending] : pending_)
    if (flushes(*pending.request)) return pending.request->submitted_ns;
  return 0;
}

uint64_t VirtualDisk::flushing_ns() const {
  const uint64_t since_ns = flushing_since_ns();
  return since_ns == 0 ? 0 : process_->clock_origin_ns + scheduler_.now_ns() - since_ns;
}

void VirtualDisk::submit(DiskRequest& request) {
  if (request.op != DiskOp::kFlush &&
      (request.offset_bytes > size_bytes() || request.length_bytes == 0 ||
       request.length_bytes > size_bytes() - request.offset_bytes))
    Report::violation("a request outside " + name_);
  request.flush_failed = holds_nothing_ = false;
  if (is_write(request.op)) written_ = true;
  if (request.op == DiskOp::kFlush) ++flushes_;
  check_overlap(request);
  const uint64_t id = next_id_++;
  request.slot = under_way().begin();
  pending_.emplace(id, Pending{&request, nullptr, done_number_});
  request.submitted_ns = process_->clock_origin_ns + scheduler_.now_ns();
  if (request.op == DiskOp::kFlush && std::exchange(holds_next_flush_, false)) {
    held_flush_ = id;
    return;
  }
  const uint64_t ns = service_ns(request);
  if (is_write(request.op) && random_.chance(0.5))
    scheduler_.after(random_.below(ns + 1), process_, [this, id] { apply_half(id); });
  scheduler_.after(ns, process_, [this, id] { finish(id); });
}

void VirtualDisk::fail_held_flush() {
  faults.flush_error_chance = 1;
  let_flushes_go();
}

void VirtualDisk::let_flushes_go() {
  holds_next_flush_ = false;
  scheduler_.after(0, process_, [this, id = std::exchange(held_flush_, 0)] { finish(id); });
}

// Writes the first bytes of a request, up to `up_to_bytes`, into the page cache.
void VirtualDisk::apply(Pending& pending, uint64_t up_to_bytes) {
  const DiskRequest& request = *pending.request;
  const uint64_t from = pending.applied_bytes;
  if (up_to_bytes <= from) return;
  if (!pending.write) {
    pending.write = std::make_shared<Write>();
    if (request.op == DiskOp::kWrite)
      pending.write->bytes.assign(request.data, request.data + request.length_bytes);
  }
  std::byte* target = cache_.data() + request.offset_bytes;
  if (request.op == DiskOp::kWrite)
    std::memcpy(target + from, request.data + from, up_to_bytes - from);
  else
    std::memset(target + from, 0, up_to_bytes - from);
  changed(request.offset_bytes + from, up_to_bytes - from);
  mend_spoiled(request.offset_bytes + from, up_to_bytes - from);
  pending.applied_bytes = up_to_bytes;
  for (uint64_t at = from; at < up_to_bytes; at += kSectorBytes) {
    const size_t sector = (request.offset_bytes + at) / kSectorBytes;
    if (unflushed_[sector].empty()) dirty_sectors_.push_back(sector);
    unflushed_[sector].push_back({pending.write, at});
  }
}

void VirtualDisk::apply_half(uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end() || faults.hung_until_ns > scheduler_.now_ns()) return;
  const uint64_t sectors = found->second.request->length_bytes / kSectorBytes;
  apply(found->second, random_.between(0, sectors) * kSectorBytes);
}

void VirtualDisk::finish(uint64_t id) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  uint64_t wait_ns = std::exchange(found->second.later_ns, 0);
  if (const uint64_t now = scheduler_.now_ns(); faults.hung_until_ns > now) {
    wait_ns = std::min(faults.hung_until_ns - now, 100 * kMillisecond_ns) + random_.below(kMillisecond_ns);
    if (id % 2 == 0) found->second.later_ns = faults.half_hangs_for_ns;
  }
  if (wait_ns > 0) return scheduler_.after(wait_ns, process_, [this, id] { finish(id); });
  DiskRequest& request = *found->second.request;
  request.error = transfer(found->second);
  request.finished_ns = process_->clock_origin_ns + scheduler_.now_ns();
  const bool place = request.op == DiskOp::kRead && is_spoiled(request.offset_bytes, request.length_bytes);
  if (request.error != 0 && !place) {
    ++errors_;
    if (request.error == ENOSPC && !request.flush_failed) ++errors_of_room_;
    Report::trace(name_, "error " + std::to_string(request.error));
  }
  pending_.erase(found);
  under_way().end(request.slot);
  if (observer) observer();
  request.done(request);
}

int VirtualDisk::transfer(Pending& pending) {
  DiskRequest& request = *pending.request;
  if (flush_error_ != 0 && (request.op == DiskOp::kFlush || request.fua)) {
    request.flush_failed = true;
    // What it has left in memory is there like any other's, and the next process' flush covers it.
    if (pending.write) pending.write->done_number = ++done_number_;
    return flush_error_;
  }
  switch (request.op) {
    case DiskOp::kRead:
      return read_now(request.offset_bytes, std::span(request.data, request.length_bytes));
    case DiskOp::kExtent:
      answer_extent(request);
      return 0;
    case DiskOp::kFlush:
      request.flush_failed = flush(pending.flush_mark) != 0;
      return flush_error_;
    case DiskOp::kWrite:
    case DiskOp::kZero:
      return finish_write(pending);
  }
  return EINVAL;
}

int VirtualDisk::finish_write(Pending& pending) {
  DiskRequest& request = *pending.request;
  const bool full = faults.full && (faults.full_chance == 1 || random_.chance(faults.full_chance));
  const int error = full ? ENOSPC : random_.chance(faults.write_error_chance) ? EIO : 0;
  if (error != 0) {
    const uint64_t sectors = request.length_bytes / kSectorBytes;
    apply(pending, random_.between(0, sectors) * kSectorBytes);
  } else {
    apply(pending, request.length_bytes);
  }
  if (!pending.write) return error;
  // What a flush covers: those whose done() ran before it was submitted.
  pending.write->done_number = ++done_number_;
  if (error != 0 || !request.fua) return error;
  // The flush behind a FUA write covers it, too.
  const uint64_t own = std::exchange(pending.write->done_number, pending.flush_mark);
  request.flush_failed = flush(pending.flush_mark) != 0;
  pending.write->done_number = own;
  return flush_error_;
}

int VirtualDisk::flush(uint64_t mark) {
  if (random_.chance(faults.flush_error_chance)) {
    persist(mark, 0.5);
    if (flush_error_ == 0) flush_failed_ns_ = scheduler_.now_ns();
    flush_error_ = faults.flush_error;
    return flush_error_;
  }
  persist(mark, 0);
  return 0;
}

int VirtualDisk::read_now(uint64_t offset_bytes, std::span<std::byte> into) {
  if (random_.chance(faults.read_error_chance)) {
    ++errors_;
    return EIO;
  }
  if (is_spoiled(offset_bytes, into.size())) return EIO;
  std::memcpy(into.data(), cache_.data() + offset_bytes, into.size());
  return 0;
}

bool VirtualDisk::is_zero(uint64_t offset_bytes, uint64_t length_bytes) const {
  const std::byte* bytes = cache_.data() + offset_bytes;
  return bytes[0] == std::byte{0} && std::memcmp(bytes, bytes + 1, length_bytes - 1) == 0;
}

void VirtualDisk::answer_extent(DiskRequest& request) const {
  request.is_hole = false;
  if (!knows_extents_) return;
  const uint64_t end = request.offset_bytes + request.length_bytes;
  uint64_t at = request.offset_bytes / extent_bytes_ * extent_bytes_;
  const auto is_hole = [&] {
    return is_zero(at, std::min(extent_bytes_, size_bytes() - at));
  };
  request.is_hole = is_hole();
  while (at < end && is_hole() == request.is_hole) at += extent_bytes_;
  request.length_bytes = std::min(end, at) - request.offset_bytes;
}

}  // namespace twinblock::sim
