#ifndef HOLDFAST_WEIGHTS_NGRAM_TIER_H_
#define HOLDFAST_WEIGHTS_NGRAM_TIER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/async_reader.h"
#include "base/source_file.h"
#include "base/status.h"
#include "weights/gguf.h"
#include "weights/model_weights.h"
#include "weights/ngram_cache.h"

namespace holdfast {

// The n-gram table of a model as its file has it, and how it is used.
struct NgramTable {
  WeightView view;
  const GgufFile* file = nullptr;
  int64_t max_rows = 0;  // that a step asks for at most
  bool exists() const { return view.exists(); }
};

// Sizes of a model's n-gram table; zeros when it has none.
struct NgramSizes {
  uint64_t table_bytes = 0;  // in the file
  int64_t n_rows = 0;
  uint64_t slot_bytes = 0;    // room for one row in memory
  uint64_t buffer_bytes = 0;  // taken beside the slots: rows of a step, and what is being read
  uint64_t least_bytes() const { return buffer_bytes + slot_bytes; }
  uint64_t most_bytes() const { return buffer_bytes + slot_bytes * static_cast<uint64_t>(n_rows); }
};
NgramSizes SizesOf(const NgramTable& table);

struct NgramTierOptions {
  uint64_t memory_bytes = 0;  // for all of it; at least NgramSizes::least_bytes()
  ReaderKind reader = ReaderKind::kAuto;
  bool direct = true;  // past the page cache, where the file system can
  // Makes the reader; empty: MakeAsyncReader(). For tests.
  std::function<Result<std::unique_ptr<AsyncReader>>(AsyncReader::Done)> make_reader;
};

struct NgramTierStats {
  // Asked for by steps: each was another's row in the same step, or in memory, or had to be read.
  int64_t n_asked = 0, n_repeated = 0, n_hits = 0, n_read = 0;
  uint64_t bytes_read = 0;              // whole blocks, as they have come
  double stall_seconds = 0;             // steps waited for reads
  int64_t n_slots = 0, n_resident = 0;  // rows in memory, at most and now
  int64_t n_rows = 0;                   // of the table
  uint64_t memory_bytes = 0;
  std::string reader;  // "io_uring, O_DIRECT"
};

// Rows of the n-gram table, read from the model's file when they are needed, with as many in memory
// as there is room for. Where a row comes from never shows in a result; a step either gets the
// file's bytes or fails.
//
// A step says at its beginning which rows it will use: those that are not in memory are read, each
// once, in ascending order, while other layers are computed:
//   Begin(rows); ... Wait(); ... Row(i) for i in [0, rows.size()) ...
//
// Threads: Begin(), Wait() from one at a time; Row() after Wait() from any; the others from any.
class NgramTier {
 public:
  // kInvalidArgument for too little memory, kFailedPrecondition for a file that is not on disk,
  // kUnimplemented for more rows than NgramCache::kMaxRows. The file must outlive the tier.
  static Result<std::unique_ptr<NgramTier>> Create(const NgramTable& table,
                                                   const NgramTierOptions& options);
  ~NgramTier();

  // Begins to gather `rows` (numbers within the table, at most max_rows of them, any may come more
  // than once). A step before this one need not have waited for its own.
  void Begin(std::span<const int64_t> rows);
  // Until all of them are there, once for each Begin(). kDataLoss or the system's error, naming
  // file and tensor, when one could not be read (the next Begin() reads again), or when the file is
  // no longer what it was (then for good): no Row() may be used.
  Status Wait();
  // The bytes of `rows[i]`.
  const std::byte* Row(int64_t i) const { return Bytes(unique_[i]); }

  // kDataLoss once Wait() has found that the file is no longer what it was. Any thread.
  Status CheckFile() const;

  NgramTierStats stats() const;

 private:
  // One piece of the file with some of the missing rows in it.
  struct Read {
    uint64_t offset = 0;
    uint32_t n_bytes = 0, min_bytes = 0;
    size_t first = 0, end = 0;  // in missing_
  };
  // A row of the table and where it comes to lie among the step's.
  struct Missing {
    int64_t row;
    int64_t unique;
  };

  NgramTier() = default;
  Status Allocate(int64_t n_slots);
  void PlanReads();
  void SubmitReads();  // with mutex_ held: into all free places
  void ReadDone(uint64_t place, int error);
  void AwaitReads();
  uint64_t OffsetOf(int64_t row) const {
    return table_offset_ + static_cast<uint64_t>(row) * static_cast<uint64_t>(row_bytes_);
  }
  std::byte* Bytes(int64_t unique) const { return step_bytes_.get() + unique * row_bytes_; }
  std::byte* PlaceData(uint64_t place) const { return staging_.get() + place * place_bytes_; }

  std::string name_;  // "n-gram rows of per_layer_token_embd.weight in a.gguf"
  uint64_t table_offset_ = 0;
  int64_t row_bytes_ = 0, n_rows_ = 0, max_rows_ = 0;
  uint64_t memory_bytes_ = 0;
  std::unique_ptr<SourceFile> source_;
  std::optional<NgramCache> cache_;

  // Of the step.
  std::vector<std::pair<int64_t, int32_t>> order_;  // rows asked for and by which, ascending
  std::vector<int32_t> unique_;                     // by asked: which of the different ones
  std::unique_ptr<std::byte[]> step_bytes_;         // of the different ones
  std::vector<Missing> missing_;
  std::vector<Read> reads_;
  std::atomic<int64_t> n_left_{0};  // reads that have not ended
  std::atomic<int> error_{0};
  Status broken_;  // the file is not what it was; read by others once is_broken_ says so
  std::atomic<bool> is_broken_{false};

  // Where blocks are read to before their rows are taken out.
  struct FreeBlocks {
    void operator()(std::byte* p) const;
  };
  uint64_t place_bytes_ = 0;
  int64_t n_places_ = 0;
  std::unique_ptr<std::byte, FreeBlocks> staging_;
  std::vector<size_t> read_of_;  // by place
  std::mutex mutex_;
  std::vector<uint64_t> free_;         // places; guarded by mutex_
  size_t next_read_ = 0;               // guarded by mutex_
  std::vector<ReadRequest> requests_;  // guarded by mutex_

  std::atomic<int64_t> n_asked_{0}, n_repeated_{0}, n_hits_{0}, n_read_{0}, n_resident_{0};
  std::atomic<uint64_t> bytes_read_{0};
  std::atomic<int64_t> stall_ns_{0};
  std::unique_ptr<AsyncReader> reader_;  // last: its threads use the others
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_NGRAM_TIER_H_
