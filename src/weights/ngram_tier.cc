#include "weights/ngram_tier.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"

namespace holdfast {
namespace {

constexpr uint64_t kBlock = 4096;  // what O_DIRECT reads in multiples of
// Reads on their way: what the reader gives the kernel at a time, and as many that wait, so that it
// never runs dry while places are refilled.
constexpr int64_t kPlaces = 512;
// What is remembered of a row while it is gathered.
constexpr int64_t kRowNotes = 96;

uint64_t RoundUp(uint64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

// Room for a row wherever it lies.
uint64_t PlaceBytes(int64_t row_bytes) {
  return RoundUp(static_cast<uint64_t>(row_bytes) + kBlock - 1);
}
int64_t PlacesFor(int64_t max_rows) { return std::min(max_rows, kPlaces); }

}  // namespace

NgramSizes SizesOf(const NgramTable& table) {
  NgramSizes sizes;
  if (!table.exists()) return sizes;
  const WeightView& view = table.view;
  sizes.table_bytes = static_cast<uint64_t>(view.row_bytes * view.n_rows);
  sizes.n_rows = view.n_rows;
  sizes.slot_bytes = NgramCache::SlotBytes(view.row_bytes);
  sizes.buffer_bytes =
      static_cast<uint64_t>(table.max_rows * (view.row_bytes + kRowNotes)) +
      static_cast<uint64_t>(PlacesFor(table.max_rows)) * PlaceBytes(view.row_bytes);
  return sizes;
}

void NgramTier::FreeBlocks::operator()(std::byte* p) const { std::free(p); }

Result<std::unique_ptr<NgramTier>> NgramTier::Create(const NgramTable& table,
                                                     const NgramTierOptions& options) {
  HF_CHECK(table.exists() && table.max_rows >= 1);
  const WeightView& view = table.view;
  const NgramSizes sizes = SizesOf(table);
  if (view.n_rows > NgramCache::kMaxRows) {
    return UnimplementedError(
        fmt::format("{}: tensor {} has {} rows, at most {} can be read one by "
                    "one (--ngram-memory all maps them)",
                    table.file->name(), view.name, view.n_rows, NgramCache::kMaxRows));
  }
  if (options.memory_bytes < sizes.least_bytes()) {
    return InvalidArgumentError(
        fmt::format("{} bytes for n-gram rows, wanted at least {} (--ngram-memory)",
                    options.memory_bytes, sizes.least_bytes()));
  }
  const MappedFile* const mapped = table.file->part_file(view.tensor->part);
  if (mapped == nullptr) {
    return FailedPreconditionError(table.file->name() +
                                   ": its n-gram table is not in a file on disk");
  }
  std::unique_ptr<NgramTier> tier(new NgramTier);
  HF_ASSIGN_OR_RETURN(tier->source_, SourceFile::Open(*mapped, options.direct));
  tier->name_ = fmt::format("n-gram rows of {} in {}", view.name, mapped->path());
  tier->table_offset_ =
      view.tensor->file_offset + static_cast<uint64_t>(view.data - view.tensor->data.data());
  tier->row_bytes_ = view.row_bytes;
  tier->n_rows_ = view.n_rows;
  tier->max_rows_ = table.max_rows;
  const uint64_t memory_bytes = std::min(options.memory_bytes, sizes.most_bytes());
  HF_RETURN_IF_ERROR(
      tier->Allocate(static_cast<int64_t>((memory_bytes - sizes.buffer_bytes) / sizes.slot_bytes)));
  tier->memory_bytes_ =
      sizes.buffer_bytes + sizes.slot_bytes * static_cast<uint64_t>(tier->cache_->n_slots());
  const auto done = [t = tier.get()](uint64_t tag, int error) { t->ReadDone(tag, error); };
  if (options.make_reader) {
    HF_ASSIGN_OR_RETURN(tier->reader_, options.make_reader(done));
  } else {
    HF_ASSIGN_OR_RETURN(tier->reader_, MakeAsyncReader(options.reader, done));
  }
  return tier;
}

Status NgramTier::Allocate(int64_t n_slots) {
  HF_ASSIGN_OR_RETURN(cache_, NgramCache::Create(n_slots, row_bytes_));
  n_places_ = PlacesFor(max_rows_);
  place_bytes_ = PlaceBytes(row_bytes_);
  step_bytes_.reset(new (std::nothrow) std::byte[static_cast<size_t>(max_rows_ * row_bytes_)]);
  const uint64_t n_bytes = static_cast<uint64_t>(n_places_) * place_bytes_;
  staging_.reset(static_cast<std::byte*>(std::aligned_alloc(kBlock, n_bytes)));
  if (!step_bytes_ || !staging_) {
    return ResourceExhaustedError(
        fmt::format("no memory for {} bytes to read n-gram rows into", n_bytes));
  }
  const auto n_rows = static_cast<size_t>(max_rows_);
  static_assert(sizeof(Read) + sizeof(Missing) + sizeof(order_[0]) + sizeof(unique_[0]) <=
                kRowNotes);
  reads_.reserve(n_rows);
  missing_.reserve(n_rows);
  order_.reserve(n_rows);
  unique_.reserve(n_rows);
  read_of_.resize(static_cast<size_t>(n_places_));
  for (int64_t place = n_places_; place-- > 0;) free_.push_back(static_cast<uint64_t>(place));
  return OkStatus();
}

NgramTier::~NgramTier() {
  if (reader_) AwaitReads();
}

void NgramTier::Begin(std::span<const int64_t> rows) {
  HF_CHECK(static_cast<int64_t>(rows.size()) <= max_rows_);
  AwaitReads();
  order_.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    HF_DCHECK(rows[i] >= 0 && rows[i] < n_rows_);
    order_.emplace_back(rows[i], static_cast<int32_t>(i));
  }
  std::sort(order_.begin(), order_.end());
  unique_.resize(rows.size());
  missing_.clear();
  int64_t n_unique = 0, last = -1;
  for (const auto& [row, i] : order_) {
    if (row != last) {
      if (const std::byte* const bytes = cache_->Find(row)) {
        std::memcpy(Bytes(n_unique), bytes, static_cast<size_t>(row_bytes_));
      } else {
        missing_.push_back({row, n_unique});
      }
      ++n_unique;
      last = row;
    }
    unique_[static_cast<size_t>(i)] = static_cast<int32_t>(n_unique - 1);
  }
  const auto n_asked = static_cast<int64_t>(rows.size());
  const auto n_missing = static_cast<int64_t>(missing_.size());
  n_asked_.fetch_add(n_asked, std::memory_order_relaxed);
  n_repeated_.fetch_add(n_asked - n_unique, std::memory_order_relaxed);
  n_hits_.fetch_add(n_unique - n_missing, std::memory_order_relaxed);
  n_read_.fetch_add(n_missing, std::memory_order_relaxed);

  PlanReads();
  error_.store(0, std::memory_order_relaxed);
  n_left_.store(static_cast<int64_t>(reads_.size()), std::memory_order_relaxed);
  const std::lock_guard lock(mutex_);
  next_read_ = 0;
  SubmitReads();
}

// Missing rows that lie close together are one read.
void NgramTier::PlanReads() {
  reads_.clear();
  const auto n_bytes = static_cast<uint64_t>(row_bytes_);
  for (size_t i = 0; i < missing_.size(); ++i) {
    const uint64_t begin = OffsetOf(missing_[i].row), end = begin + n_bytes;
    if (!reads_.empty() && end <= reads_.back().offset + place_bytes_) {
      reads_.back().min_bytes = static_cast<uint32_t>(end - reads_.back().offset);
      reads_.back().end = i + 1;
    } else {
      const uint64_t offset = begin / kBlock * kBlock;
      reads_.push_back({.offset = offset,
                        .min_bytes = static_cast<uint32_t>(end - offset),
                        .first = i,
                        .end = i + 1});
    }
  }
  for (Read& read : reads_) read.n_bytes = static_cast<uint32_t>(RoundUp(read.min_bytes));
}

void NgramTier::SubmitReads() {
  requests_.clear();
  while (next_read_ < reads_.size() && !free_.empty()) {
    const uint64_t place = free_.back();
    free_.pop_back();
    const Read& read = reads_[next_read_];
    read_of_[place] = next_read_++;
    requests_.push_back({.fd = source_->fd(),
                         .offset = read.offset,
                         .data = PlaceData(place),
                         .n_bytes = read.n_bytes,
                         .min_bytes = read.min_bytes,
                         .tag = place});
  }
  if (!requests_.empty()) reader_->Submit(requests_);
}

void NgramTier::ReadDone(uint64_t place, int error) {
  const Read& read = reads_[read_of_[place]];
  if (error != 0) error_.store(error, std::memory_order_relaxed);
  for (size_t i = read.first; error == 0 && i < read.end; ++i) {
    const std::byte* const from = PlaceData(place) + (OffsetOf(missing_[i].row) - read.offset);
    std::memcpy(Bytes(missing_[i].unique), from, static_cast<size_t>(row_bytes_));
  }
  bytes_read_.fetch_add(read.n_bytes, std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    free_.push_back(place);
    // A few at a time, so that not every read costs a system call.
    const size_t few = static_cast<size_t>(std::max<int64_t>(n_places_ / 8, 1));
    if (free_.size() >= few) SubmitReads();
  }
  // The last of the step: whoever waits may begin the next one now.
  if (n_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) n_left_.notify_all();
}

void NgramTier::AwaitReads() {
  for (int64_t n; (n = n_left_.load(std::memory_order_acquire)) > 0;) n_left_.wait(n);
}

Status NgramTier::Wait() {
  if (n_left_.load(std::memory_order_acquire) > 0) {
    const auto begin = std::chrono::steady_clock::now();
    AwaitReads();
    const auto waited = std::chrono::steady_clock::now() - begin;
    stall_ns_.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count(),
                        std::memory_order_relaxed);
  }
  // A file that has changed explains a read that failed; and rows in memory are no longer right.
  if (broken_.ok()) {
    const Status changed = source_->CheckUnchanged();
    if (!changed.ok()) {
      broken_ = Status(changed.code(), fmt::format("{}: {}", name_, changed.message()));
      is_broken_.store(true, std::memory_order_release);
    }
  }
  HF_RETURN_IF_ERROR(broken_);
  HF_RETURN_IF_ERROR(ReadErrorStatus(error_.load(std::memory_order_relaxed), name_));
  for (const Missing& missing : missing_) cache_->Put(missing.row, Bytes(missing.unique));
  missing_.clear();
  n_resident_.store(cache_->n_rows(), std::memory_order_relaxed);
  return OkStatus();
}

Status NgramTier::CheckFile() const {
  return is_broken_.load(std::memory_order_acquire) ? broken_ : OkStatus();
}

NgramTierStats NgramTier::stats() const {
  return {.n_asked = n_asked_,
          .n_repeated = n_repeated_,
          .n_hits = n_hits_,
          .n_read = n_read_,
          .bytes_read = bytes_read_,
          .stall_seconds = static_cast<double>(stall_ns_) / 1e9,
          .n_slots = cache_->n_slots(),
          .n_resident = n_resident_,
          .n_rows = n_rows_,
          .memory_bytes = memory_bytes_,
          .reader = fmt::format("{}, {}", reader_->name(),
                                source_->direct() ? "O_DIRECT" : "page cache")};
}

}  // namespace holdfast
