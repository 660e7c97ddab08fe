#ifndef HOLDFAST_WEIGHTS_EXPERT_TIER_H_
#define HOLDFAST_WEIGHTS_EXPERT_TIER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/async_reader.h"
#include "base/source_file.h"
#include "base/status.h"
#include "weights/expert_profile.h"
#include "weights/expert_residency.h"
#include "weights/gguf.h"
#include "weights/model_weights.h"

namespace holdfast {

// The routed experts of one layer as its file has them.
struct ExpertLayer {
  WeightView gate, up, down;
  const GgufFile* file = nullptr;
  // Not null: the same experts once more, each in one piece (expert_file.h), to read them from.
  const GgufFile* blob_file = nullptr;
  const GgufTensor* blobs = nullptr;  // [n_experts][gate, up, down, padding]
};

// Where the matrices of one expert lie in memory.
struct ExpertBytes {
  const std::byte *gate = nullptr, *up = nullptr, *down = nullptr;
};

// How an expert of a layer is read into a slot. Matrices that follow each other in the file are one
// piece, read at once.
struct ExpertLayout {
  struct Piece {
    int part = 0;          // of the file
    uint64_t offset = 0;   // of expert 0
    uint64_t stride = 0;   // from one expert to the next
    uint64_t n_bytes = 0;  // of one expert
    uint64_t place = 0;    // in a slot; a multiple of 4 KiB
    uint64_t OffsetOf(int64_t expert) const {
      return offset + stride * static_cast<uint64_t>(expert);
    }
  };
  // Which piece a matrix is in, and how far behind the piece's beginning.
  struct Matrix {
    size_t piece = 0;
    uint64_t offset = 0;
  };
  std::vector<Piece> pieces;
  Matrix gate, up, down;
  int64_t n_experts = 0;
  uint64_t expert_bytes = 0;  // of one expert in the file
  uint64_t slot_bytes = 0;    // with what is read beyond both ends of every piece
};
ExpertLayout LayoutOf(const ExpertLayer& layer);
// Of every layer, the draft head's last; its file is `mtp_sidecar` where there is one.
std::vector<ExpertLayer> ExpertLayersOf(const ModelWeights& weights, const GgufFile& trunk,
                                        const GgufFile* mtp_sidecar = nullptr);

// Sizes of a model's experts.
struct ExpertSizes {
  int64_t n_experts = 0;    // over all layers
  uint64_t file_bytes = 0;  // all of them in the files
  uint64_t slot_bytes = 0;  // room for any one of them
};
ExpertSizes SizesOf(std::span<const ExpertLayer> layers);

struct ExpertTierOptions {
  uint64_t arena_bytes = 0;  // rounded down to whole slots, at most one for each expert
  ReaderKind reader = ReaderKind::kAuto;
  bool direct = true;      // past the page cache, where the file system can
  bool look_ahead = true;  // whoever runs steps may call Prefetch()
  // Half life of an expert's worth in steps.
  double half_life_steps = 128;
  // Makes the reader; empty: MakeAsyncReader(). For tests.
  std::function<Result<std::unique_ptr<AsyncReader>>(AsyncReader::Done)> make_reader;
};

struct ExpertTierStats {
  struct Layer {
    int64_t n_hits = 0;        // uses of experts that were there
    int64_t n_late = 0;        // uses of experts whose reading had begun ahead of the need
    int64_t n_misses = 0;      // uses of experts that had to be read
    uint64_t bytes_read = 0;   // with those that were read ahead
    double stall_seconds = 0;  // the step waited for reads
  };
  std::vector<Layer> layers;  // in the order given to Create()
  int64_t n_experts = 0, n_slots = 0, n_resident = 0;
  uint64_t arena_bytes = 0;
  std::string reader;  // "io_uring, O_DIRECT", from a prepared file "…, prepared"
};

struct UnmapArena {
  size_t n_bytes = 0;
  void operator()(std::byte* p) const;
};

// Experts in a fixed arena of slots, read from the model's file when they are needed. What lies in
// the arena never shows in a result; a step either gets the file's bytes or fails.
//
// A step pins the experts it uses, group by group where there are more than slots, waits for each
// before it touches it, and unpins the group:
//   while (experts left) { n = Pin(layer, left); ... Wait(i) for i in [0, n) ...; Unpin(); }
//
// Threads: Adopt(), ReadIn(), Pin(), Prefetch() and Unpin() from one thread at a time; Wait() in
// between from any; stats() and Learned() from any.
class ExpertTier {
 public:
  // kInvalidArgument when not one expert fits, kFailedPrecondition for files that are not on disk.
  // The files must outlive the tier.
  static Result<std::unique_ptr<ExpertTier>> Create(std::vector<ExpertLayer> layers,
                                                    const ExpertTierOptions& options);
  ~ExpertTier();

  // Keeps the first n >= 1 of `experts` (ascending ids of `layer`) in place, begins to read those
  // that are missing, and returns n: all when there are slots for all. Nothing may be pinned yet.
  int64_t Pin(int layer, std::span<const int32_t> experts);
  // The order in which the pinned ones become ready: those that are there first. [n)
  std::span<const int32_t> ready_first() const { return ready_first_; }
  // Pinned expert `i` of [0, n), once it has been read. When that failed, Unpin() says so and what
  // lies there is of no use.
  ExpertBytes Wait(int64_t i);
  // Ends the group. kDataLoss or the system's error, naming file and layer, when an expert of it
  // could not be read, or when a file is no longer what it was (then for good).
  Status Unpin();

  // Begins to read those of `experts` that are missing, as far as there are slots that may go;
  // failures are the later Pin()'s. Also while a group is pinned.
  void Prefetch(int layer, std::span<const int32_t> experts);

  // Begins with what an earlier run has learned: before the first step. The profile is of these
  // layers. ReadIn() then brings in the experts that were worth most.
  void Adopt(const ExpertProfile& profile);
  // Begins to read some more of them and returns; true while there are others, or reads that have
  // not ended. Between steps: an `idle` disk gets enough to be busy with for a moment, otherwise
  // it is one expert at a time. What steps have brought in meanwhile and is worth more stays.
  bool ReadIn(bool idle);
  // What this run has learned, with what it began with.
  ExpertProfile Learned() const;
  std::vector<int64_t> n_experts() const;  // by layer

  // kDataLoss once Unpin() has found that a file is no longer what it was. Any thread.
  Status CheckFiles() const;

  bool look_ahead() const { return look_ahead_; }
  ExpertTierStats stats() const;

 private:
  enum class SlotState : uint32_t { kEmpty, kReading, kReady, kFailed };
  struct Layer {
    ExpertLayout layout;
    std::vector<const SourceFile*> sources;  // of each piece
    std::string name;                        // "an expert of blk.3.ffn_gate_exps.weight in a.gguf"
    int first_expert = 0;                    // over all layers
  };
  struct Slot {
    std::atomic<SlotState> state{SlotState::kEmpty};
    std::atomic<int> n_reads{0};  // outstanding
    std::atomic<int> error{0};
  };
  struct Counters {
    std::atomic<int64_t> n_hits{0}, n_late{0}, n_misses{0}, bytes_read{0}, stall_ns{0};
  };

  ExpertTier() = default;
  Status AddLayer(const ExpertLayer& layer, bool direct);
  Result<const SourceFile*> SourceOf(const GgufFile& file, int part, bool direct);
  Status AllocateSlots(uint64_t arena_bytes, double half_life_steps);
  void ReadDone(uint64_t tag, int error);
  // A held slot for an expert of the group: what is worth least, of what is wanted later in the
  // same layer (`kept`, held) only when nothing else is left.
  int SlotForGroup(std::vector<int>* kept);
  // Gives read-ahead slots whose reading has ended to those that may go.
  void Sweep();
  // Into a held slot. Reads are collected; SubmitReads() sends them off.
  void StartReading(int layer, int32_t expert, int slot);
  void SubmitReads();
  void ClearSlot(int slot);
  void AwaitRead(int slot);
  std::byte* SlotData(int slot) const {
    return arena_.get() + slot_bytes_ * static_cast<size_t>(slot);
  }

  std::vector<Layer> layers_;
  std::vector<std::unique_ptr<SourceFile>> sources_;
  uint64_t slot_bytes_ = 0;
  bool look_ahead_ = true;
  bool prepared_ = false;  // some layer is read from blobs
  std::unique_ptr<std::byte, UnmapArena> arena_;
  std::vector<Slot> slots_;
  std::vector<Counters> counters_;  // by layer
  std::unique_ptr<ExpertResidency> residency_;
  double half_life_ = 0;  // steps
  double now_ = 0;        // steps
  // Guards worths and now_ where they change, and where another thread than that of steps reads.
  mutable std::mutex worth_mutex_;
  std::atomic<int64_t> n_resident_{0};
  std::vector<int> ahead_;  // slots that are read ahead and not pinned
  struct Wanted {
    int layer;
    int32_t expert;
  };
  std::vector<Wanted> read_in_;  // by ReadIn(), the one worth most last
  std::vector<ReadRequest> requests_;
  // The pinned group.
  int layer_ = -1;
  std::vector<int32_t> pinned_experts_;
  std::vector<int> pinned_slots_;
  std::vector<int32_t> ready_first_;
  std::mutex stall_mutex_;
  int64_t stall_begin_ns_ = 0, stall_end_ns_ = 0;  // guarded by stall_mutex_
  Status broken_;                                  // a file is not what it was; set once
  std::atomic<bool> is_broken_ = false;            // broken_ is set
  std::unique_ptr<AsyncReader> reader_;            // last: its threads use the others
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_EXPERT_TIER_H_
