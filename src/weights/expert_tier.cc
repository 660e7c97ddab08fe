#include "weights/expert_tier.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace holdfast {
namespace {

constexpr uint64_t kBlock = 4096;  // what O_DIRECT reads in multiples of
// A request that comes while experts are read in waits for no more than this.
constexpr uint64_t kReadInBytes = uint64_t{16} << 20;

uint64_t RoundUp(uint64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }

int64_t NowNs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace

ExpertLayout LayoutOf(const ExpertLayer& layer) {
  ExpertLayout layout;
  layout.n_experts = layer.gate.n_mats;
  if (layer.blobs != nullptr) {
    const auto bytes = [](const WeightView& view) {
      return static_cast<uint64_t>(view.row_bytes * view.n_rows);
    };
    layout.up = {0, bytes(layer.gate)};
    layout.down = {0, bytes(layer.gate) + bytes(layer.up)};
    layout.expert_bytes = layout.down.offset + bytes(layer.down);
    layout.slot_bytes = RoundUp(layout.expert_bytes);  // blobs begin at whole blocks
    layout.pieces.push_back({.part = layer.blobs->part,
                             .offset = layer.blobs->file_offset,
                             .stride = static_cast<uint64_t>(layer.blobs->ne[0]),
                             .n_bytes = layout.expert_bytes});
    return layout;
  }
  const auto add = [&](const WeightView& view, ExpertLayout::Matrix* matrix) {
    const uint64_t offset =
        view.tensor->file_offset + static_cast<uint64_t>(view.data - view.tensor->data.data());
    const uint64_t stride = static_cast<uint64_t>(view.mat_bytes);
    const uint64_t n_bytes = static_cast<uint64_t>(view.row_bytes * view.n_rows);
    layout.expert_bytes += n_bytes;
    if (!layout.pieces.empty()) {
      ExpertLayout::Piece& last = layout.pieces.back();
      if (last.part == view.tensor->part && last.stride == stride &&
          last.offset + last.n_bytes == offset) {
        *matrix = {layout.pieces.size() - 1, last.n_bytes};
        last.n_bytes += n_bytes;
        return;
      }
    }
    *matrix = {layout.pieces.size(), 0};
    layout.pieces.push_back(
        {.part = view.tensor->part, .offset = offset, .stride = stride, .n_bytes = n_bytes});
  };
  add(layer.gate, &layout.gate);
  add(layer.up, &layout.up);
  add(layer.down, &layout.down);
  for (ExpertLayout::Piece& piece : layout.pieces) {
    piece.place = layout.slot_bytes;
    layout.slot_bytes += RoundUp(piece.n_bytes + kBlock - 1);
  }
  return layout;
}

std::vector<ExpertLayer> ExpertLayersOf(const ModelWeights& weights, const GgufFile& trunk,
                                        const GgufFile* mtp_sidecar) {
  std::vector<ExpertLayer> layers;
  const auto add = [&](const MoeWeights& moe, const GgufFile& file) {
    layers.push_back({.gate = moe.gate, .up = moe.up, .down = moe.down, .file = &file});
  };
  for (const LayerWeights& layer : weights.layers) add(layer.moe, trunk);
  if (weights.mtp) add(weights.mtp->layer.moe, mtp_sidecar != nullptr ? *mtp_sidecar : trunk);
  return layers;
}

ExpertSizes SizesOf(std::span<const ExpertLayer> layers) {
  ExpertSizes sizes;
  for (const ExpertLayer& layer : layers) {
    const ExpertLayout layout = LayoutOf(layer);
    sizes.n_experts += layout.n_experts;
    sizes.file_bytes += layout.expert_bytes * static_cast<uint64_t>(layout.n_experts);
    sizes.slot_bytes = std::max(sizes.slot_bytes, layout.slot_bytes);
  }
  return sizes;
}

void UnmapArena::operator()(std::byte* p) const { ::munmap(p, n_bytes); }

Result<std::unique_ptr<ExpertTier>> ExpertTier::Create(std::vector<ExpertLayer> layers,
                                                       const ExpertTierOptions& options) {
  std::unique_ptr<ExpertTier> tier(new ExpertTier);
  for (const ExpertLayer& layer : layers) {
    HF_RETURN_IF_ERROR(tier->AddLayer(layer, options.direct));
  }
  tier->slot_bytes_ = SizesOf(layers).slot_bytes;
  tier->look_ahead_ = options.look_ahead;
  HF_RETURN_IF_ERROR(tier->AllocateSlots(options.arena_bytes, options.half_life_steps));
  tier->counters_ = std::vector<Counters>(layers.size());
  const auto done = [t = tier.get()](uint64_t tag, int error) { t->ReadDone(tag, error); };
  if (options.make_reader) {
    HF_ASSIGN_OR_RETURN(tier->reader_, options.make_reader(done));
  } else {
    HF_ASSIGN_OR_RETURN(tier->reader_, MakeAsyncReader(options.reader, done));
  }
  return tier;
}

ExpertTier::~ExpertTier() = default;

Result<const SourceFile*> ExpertTier::SourceOf(const GgufFile& file, int part, bool direct) {
  const MappedFile* const mapped = file.part_file(part);
  if (mapped == nullptr) {
    return FailedPreconditionError(file.name() + ": its experts are not in a file on disk");
  }
  for (const auto& source : sources_) {
    if (source->path() == mapped->path()) return static_cast<const SourceFile*>(source.get());
  }
  HF_ASSIGN_OR_RETURN(std::unique_ptr<SourceFile> source, SourceFile::Open(*mapped, direct));
  sources_.push_back(std::move(source));
  return static_cast<const SourceFile*>(sources_.back().get());
}

Status ExpertTier::AddLayer(const ExpertLayer& layer, bool direct) {
  Layer& added = layers_.emplace_back();
  added.layout = LayoutOf(layer);
  for (const ExpertLayout::Piece& piece : added.layout.pieces) {
    if (piece.n_bytes > (uint64_t{1} << 30)) {
      return UnimplementedError(fmt::format("{}: experts of {} bytes, at most 1 GiB can be read",
                                            layer.file->name(), piece.n_bytes));
    }
    const GgufFile& file = layer.blobs != nullptr ? *layer.blob_file : *layer.file;
    HF_ASSIGN_OR_RETURN(const SourceFile* source, SourceOf(file, piece.part, direct));
    added.sources.push_back(source);
  }
  if (layer.blobs != nullptr) {
    // The model's other weights are used where its file is mapped: it must stay as it is, too.
    HF_RETURN_IF_ERROR(SourceOf(*layer.file, layer.down.tensor->part, direct).status());
    prepared_ = true;
  }
  added.name = fmt::format("an expert of {} in {}", layer.down.name, added.sources.back()->path());
  if (layers_.size() > 1) {
    const Layer& before = layers_[layers_.size() - 2];
    added.first_expert = before.first_expert + static_cast<int>(before.layout.n_experts);
  }
  return OkStatus();
}

Status ExpertTier::AllocateSlots(uint64_t arena_bytes, double half_life_steps) {
  const int64_t n_experts = layers_.back().first_expert + layers_.back().layout.n_experts;
  const int64_t n_slots =
      static_cast<int64_t>(std::min<uint64_t>(arena_bytes / slot_bytes_, n_experts));
  if (n_slots < 1) {
    return InvalidArgumentError(fmt::format(
        "{} bytes for experts, one of them takes {} (--expert-memory)", arena_bytes, slot_bytes_));
  }
  const size_t n_bytes = slot_bytes_ * static_cast<size_t>(n_slots);
  void* const data =
      ::mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return ResourceExhaustedError(fmt::format("no memory for {} bytes of experts", n_bytes));
  }
#ifdef MADV_HUGEPAGE
  (void)::madvise(data, n_bytes, MADV_HUGEPAGE);  // fewer page table walks, if it can be had
#endif
  arena_ = {static_cast<std::byte*>(data), UnmapArena{n_bytes}};
  slots_ = std::vector<Slot>(n_slots);
  half_life_ = half_life_steps;
  residency_ = std::make_unique<ExpertResidency>(static_cast<int>(n_experts),
                                                 static_cast<int>(n_slots), half_life_steps);
  return OkStatus();
}

void ExpertTier::ReadDone(uint64_t tag, int error) {
  Slot& slot = slots_[tag];
  if (error != 0) slot.error.store(error, std::memory_order_relaxed);
  if (slot.n_reads.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  const bool failed = slot.error.load(std::memory_order_relaxed) != 0;
  slot.state.store(failed ? SlotState::kFailed : SlotState::kReady, std::memory_order_release);
  slot.state.notify_all();
}

void ExpertTier::AwaitRead(int slot) {
  slots_[slot].state.wait(SlotState::kReading, std::memory_order_acquire);
}

void ExpertTier::ClearSlot(int slot) {
  if (residency_->ExpertOf(slot) >= 0) n_resident_.fetch_sub(1, std::memory_order_relaxed);
  residency_->Clear(slot);
  slots_[slot].state.store(SlotState::kEmpty, std::memory_order_relaxed);
}

void ExpertTier::StartReading(int layer, int32_t expert, int slot) {
  ClearSlot(slot);
  const Layer& from = layers_[layer];
  residency_->Place(from.first_expert + expert, slot);
  n_resident_.fetch_add(1, std::memory_order_relaxed);
  Slot& to = slots_[slot];
  to.error.store(0, std::memory_order_relaxed);
  to.n_reads.store(static_cast<int>(from.layout.pieces.size()), std::memory_order_relaxed);
  to.state.store(SlotState::kReading, std::memory_order_relaxed);
  for (size_t i = 0; i < from.layout.pieces.size(); ++i) {
    const ExpertLayout::Piece& piece = from.layout.pieces[i];
    const uint64_t begin = piece.OffsetOf(expert), head = begin % kBlock;
    const auto n_bytes = static_cast<uint32_t>(RoundUp(head + piece.n_bytes));
    requests_.push_back({.fd = from.sources[i]->fd(),
                         .offset = begin - head,
                         .data = SlotData(slot) + piece.place,
                         .n_bytes = n_bytes,
                         .min_bytes = static_cast<uint32_t>(head + piece.n_bytes),
                         .tag = static_cast<uint64_t>(slot)});
    counters_[layer].bytes_read.fetch_add(n_bytes, std::memory_order_relaxed);
  }
}

void ExpertTier::SubmitReads() {
  if (!requests_.empty()) reader_->Submit(requests_);
  requests_.clear();
}

void ExpertTier::Sweep() {
  std::erase_if(ahead_, [this](int slot) {
    const SlotState state = slots_[slot].state.load(std::memory_order_acquire);
    if (state == SlotState::kReading) return false;
    if (state == SlotState::kFailed) ClearSlot(slot);
    residency_->Free(slot);
    return true;
  });
}

int ExpertTier::SlotForGroup(std::vector<int>* kept) {
  for (;;) {
    if (const auto slot = residency_->LeastWorth()) {
      residency_->Hold(*slot);
      return *slot;
    }
    if (!kept->empty()) {
      const int slot = kept->back();
      kept->pop_back();
      return slot;
    }
    // A group has no more experts than there are slots, so others are being read ahead.
    HF_CHECK(!ahead_.empty());
    SubmitReads();
    AwaitRead(ahead_.front());
    Sweep();
  }
}

int64_t ExpertTier::Pin(int layer, std::span<const int32_t> experts) {
  HF_CHECK(pinned_slots_.empty() && !experts.empty());
  Sweep();
  const int first = layers_[layer].first_expert;
  Counters& counters = counters_[layer];
  // Of more than all slots, one half is used while the other is read.
  const int64_t n_all = static_cast<int64_t>(experts.size()), n_slots = residency_->n_slots();
  const int64_t n = n_all <= n_slots ? n_all : std::max<int64_t>(n_slots / 2, 1);
  {
    const std::lock_guard lock(worth_mutex_);
    now_ += 1.0 / static_cast<double>(layers_.size());
    for (const int32_t expert : experts.first(n)) residency_->Use(first + expert, now_);
  }
  layer_ = layer;
  pinned_experts_.assign(experts.begin(), experts.begin() + n);
  pinned_slots_.assign(n, -1);
  ready_first_.clear();

  // What is there already is held before anything is given away.
  std::vector<int> kept;
  std::vector<int32_t> not_yet;  // of the group, in the order in which they are read
  for (int64_t i = 0; i < n_all; ++i) {
    const int slot = residency_->SlotOf(first + experts[i]);
    if (slot < 0) continue;
    const bool reading = std::erase(ahead_, slot) > 0;
    if (i >= n) {
      if (reading) {
        ahead_.push_back(slot);
      } else {
        residency_->Hold(slot);
        kept.push_back(slot);
      }
      continue;
    }
    if (!reading) residency_->Hold(slot);
    pinned_slots_[i] = slot;
    const bool late =
        reading && slots_[slot].state.load(std::memory_order_relaxed) != SlotState::kReady;
    ++(late ? counters.n_late : counters.n_hits);
    if (!late) ready_first_.push_back(static_cast<int32_t>(i));
    if (late) not_yet.push_back(static_cast<int32_t>(i));
  }
  for (int64_t i = 0; i < n; ++i) {
    if (pinned_slots_[i] >= 0) continue;
    pinned_slots_[i] = SlotForGroup(&kept);
    StartReading(layer, experts[i], pinned_slots_[i]);
    not_yet.push_back(static_cast<int32_t>(i));
    ++counters.n_misses;
  }
  ready_first_.insert(ready_first_.end(), not_yet.begin(), not_yet.end());
  for (int64_t i = n; i < std::min(2 * n, n_all); ++i) {
    if (residency_->SlotOf(first + experts[i]) >= 0) continue;
    const auto slot = residency_->LeastWorth();
    if (!slot) break;
    residency_->Hold(*slot);
    StartReading(layer, experts[i], *slot);
    ahead_.push_back(*slot);
  }
  for (const int slot : kept) residency_->Free(slot);
  SubmitReads();
  return n;
}

ExpertBytes ExpertTier::Wait(int64_t i) {
  const int slot = pinned_slots_[i];
  if (slots_[slot].state.load(std::memory_order_acquire) == SlotState::kReading) {
    const int64_t begin = NowNs();
    AwaitRead(slot);
    const int64_t end = NowNs();
    const std::lock_guard lock(stall_mutex_);
    if (stall_end_ns_ == 0 || begin < stall_begin_ns_) stall_begin_ns_ = begin;
    stall_end_ns_ = std::max(stall_end_ns_, end);
  }
  const ExpertLayout& layout = layers_[layer_].layout;
  const std::byte* const data = SlotData(slot);
  const auto at = [&](const ExpertLayout::Matrix& matrix) {
    const ExpertLayout::Piece& piece = layout.pieces[matrix.piece];
    return data + piece.place + piece.OffsetOf(pinned_experts_[i]) % kBlock + matrix.offset;
  };
  return {at(layout.gate), at(layout.up), at(layout.down)};
}

Status ExpertTier::Unpin() {
  Status status = broken_;
  for (const int slot : pinned_slots_) {
    AwaitRead(slot);
    const int error = slots_[slot].error.load(std::memory_order_relaxed);
    if (slots_[slot].state.load(std::memory_order_acquire) == SlotState::kFailed) {
      if (status.ok()) status = ReadErrorStatus(error, layers_[layer_].name);
      ClearSlot(slot);
    }
    residency_->Free(slot);
  }
  pinned_slots_.clear();
  {
    const std::lock_guard lock(stall_mutex_);
    counters_[layer_].stall_ns.fetch_add(stall_end_ns_ - stall_begin_ns_,
                                         std::memory_order_relaxed);
    stall_begin_ns_ = stall_end_ns_ = 0;
  }
  // A file that has changed explains a read that failed; and mapped weights are no longer right.
  for (size_t i = 0; broken_.ok() && i < sources_.size(); ++i) {
    broken_ = sources_[i]->CheckUnchanged();
    if (broken_.ok()) continue;
    status = broken_;
    is_broken_.store(true, std::memory_order_release);
  }
  return status;
}

Status ExpertTier::CheckFiles() const {
  return is_broken_.load(std::memory_order_acquire) ? broken_ : OkStatus();
}

void ExpertTier::Prefetch(int layer, std::span<const int32_t> experts) {
  Sweep();
  const int first = layers_[layer].first_expert;
  for (const int32_t expert : experts) {
    if (residency_->SlotOf(first + expert) >= 0) continue;
    // A right guess takes the slot that the need would take a moment later.
    const auto slot = residency_->LeastWorth();
    if (!slot) break;
    residency_->Hold(*slot);
    StartReading(layer, expert, *slot);
    ahead_.push_back(*slot);
  }
  SubmitReads();
}

void ExpertTier::Adopt(const ExpertProfile& profile) {
  HF_CHECK(now_ == 0 && profile.layers.size() == layers_.size());
  const std::lock_guard lock(worth_mutex_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const std::vector<float>& worth = profile.layers[i].worth;
    HF_CHECK(static_cast<int64_t>(worth.size()) == layers_[i].layout.n_experts);
    for (size_t e = 0; e < worth.size(); ++e) {
      if (std::isinf(worth[e])) continue;
      residency_->SetWorth(layers_[i].first_expert + static_cast<int>(e), worth[e]);
      read_in_.push_back({static_cast<int>(i), static_cast<int32_t>(e)});
    }
  }
  std::ranges::stable_sort(read_in_, {}, [this](const Wanted& wanted) {
    return residency_->Worth(layers_[wanted.layer].first_expert + wanted.expert);
  });
  const size_t n_slots = slots_.size();
  if (read_in_.size() > n_slots) read_in_.erase(read_in_.begin(), read_in_.end() - n_slots);
}

bool ExpertTier::ReadIn(bool idle) {
  if (read_in_.empty() && ahead_.empty()) return false;
  Sweep();
  const size_t n_at_once = idle ? std::max<size_t>(kReadInBytes / slot_bytes_, 2) : 1;
  while (!read_in_.empty() && ahead_.size() < n_at_once) {
    const Wanted wanted = read_in_.back();
    const int expert = layers_[wanted.layer].first_expert + wanted.expert;
    if (residency_->SlotOf(expert) < 0) {
      const auto slot = residency_->LeastWorth();
      if (!slot) break;
      const int former = residency_->ExpertOf(*slot);
      if (former >= 0 && residency_->Worth(former) >= residency_->Worth(expert)) {
        read_in_.clear();  // nor is any of the others worth more
        break;
      }
      residency_->Hold(*slot);
      StartReading(wanted.layer, wanted.expert, *slot);
      ahead_.push_back(*slot);
    }
    read_in_.pop_back();
  }
  SubmitReads();
  return !read_in_.empty() || !ahead_.empty();
}

ExpertProfile ExpertTier::Learned() const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  ExpertProfile profile;
  const std::lock_guard lock(worth_mutex_);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const Counters& counters = counters_[i];
    ExpertProfile::Layer& layer = profile.layers.emplace_back();
    layer.n_hits = static_cast<uint64_t>(counters.n_hits.load());
    layer.n_late = static_cast<uint64_t>(counters.n_late.load());
    layer.n_misses = static_cast<uint64_t>(counters.n_misses.load());
    for (int e = 0; e < layers_[i].layout.n_experts; ++e) {
      const double worth = residency_->Worth(layers_[i].first_expert + e);
      const bool used = worth > std::numeric_limits<double>::lowest();
      layer.worth.push_back(used ? static_cast<float>(worth - now_ / half_life_) : kNever);
    }
  }
  return profile;
}

std::vector<int64_t> ExpertTier::n_experts() const {
  std::vector<int64_t> n_experts;
  for (const Layer& layer : layers_) n_experts.push_back(layer.layout.n_experts);
  return n_experts;
}

ExpertTierStats ExpertTier::stats() const {
  ExpertTierStats stats;
  for (const Counters& c : counters_) {
    stats.layers.push_back({.n_hits = c.n_hits,
                            .n_late = c.n_late,
                            .n_misses = c.n_misses,
                            .bytes_read = static_cast<uint64_t>(c.bytes_read.load()),
                            .stall_seconds = static_cast<double>(c.stall_ns) / 1e9});
  }
  stats.n_experts = layers_.back().first_expert + layers_.back().layout.n_experts;
  stats.n_slots = static_cast<int64_t>(slots_.size());
  stats.n_resident = n_resident_.load(std::memory_order_relaxed);
  stats.arena_bytes = arena_.get_deleter().n_bytes;
  const bool direct = std::all_of(sources_.begin(), sources_.end(),
                                  [](const auto& source) { return source->direct(); });
  stats.reader = fmt::format("{}, {}{}", reader_->name(), direct ? "O_DIRECT" : "page cache",
                             prepared_ ? ", prepared" : "");
  return stats;
}

}  // namespace holdfast
