#ifndef HOLDFAST_MODEL_MODEL_H_
#define HOLDFAST_MODEL_MODEL_H_

// The qwen4exp forward pass (spec: qwen4exp), written once over the backend's ops.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "ops/backend.h"
#include "state/layout.h"
#include "weights/expert_file.h"
#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"

namespace holdfast {

struct ModelOptions {
  std::string mtp_path;  // draft-head sidecar; empty: what the trunk file has
  KvFormat kv_format = KvFormat::kInt8;
  int page_tokens = StateLayout::kDefaultPageTokens;
  int64_t max_rows = 512;              // rows of one step; scratch is sized for it
  bool draft_norm_per_stream = false;  // norm of the draft head's hidden rows: one, or one a stream
  int64_t draft_vocab = 0;             // ids below this are guessed, the others never; 0: all are
  ModelConfigOptions config;
};

// Consecutive new rows of one conversation: positions [first_position, tokens.size()).
struct SequenceRows {
  std::span<const int32_t> tokens;  // the whole conversation up to and including the new rows
  std::span<const int32_t> drafts;  // guessed tokens after them, rows as well; only with a log
  int64_t first_position = 0;
  Buffer* running = nullptr;       // the state at first_position; at tokens.size() afterwards
  std::span<Buffer* const> pages;  // covers tokens.size() cells
  // With a draft head: its own state and cells. Null: the conversation has none.
  Buffer* draft_running = nullptr;
  std::span<Buffer* const> draft_pages;
  // Not null (Model::log_bytes() bytes, at most kMaxWindow rows): the rows are on trial. States
  // stay as they were until Commit() says how many of them count.
  Buffer* log = nullptr;

  int64_t n_tokens() const { return static_cast<int64_t>(tokens.size() + drafts.size()); }
  int64_t n_rows() const { return n_tokens() - first_position; }
};

struct Batch {
  std::vector<SequenceRows> sequences;  // rows of the step, in this order
  std::vector<int32_t> output_rows;     // rows whose logits are wanted
  // Rows of whose logits only something small is wanted: `reduce` gets them one by one, with their
  // index here, and may change what it is given. Never more than one of them is kept.
  std::vector<int32_t> reduced_rows;
  std::function<void(size_t index, std::span<float> logits)> reduce;
};

// One conversation whose next tokens are to be guessed.
struct DraftSequence {
  std::span<const int32_t> tokens;  // all; the last one has no row yet
  Buffer* draft_running = nullptr;
  std::span<Buffer* const> draft_pages;  // covers tokens.size() + max_drafts cells
  int64_t max_drafts = 0;
};

// An intermediate value, for tests: what, of which layer (-1: none), [n_rows, n_cols].
struct TapPoint {
  std::string_view what;
  int layer;
  int64_t n_rows, n_cols;
  std::span<const float> values;      // floats, or
  std::span<const int32_t> integers;  // integers
};
using Tap = std::function<void(const TapPoint&)>;

// One row of a step with its logits, for proofs.
struct RowPoint {
  const SequenceRows& sequence;
  int64_t position;               // of the row in its conversation
  std::span<const float> logits;  // computed with all rows of the step, or
  bool returned;                  // true: as Forward() returned them
};
using RowObserver = std::function<void(const RowPoint&)>;

// Threads: one caller at a time.
class Model {
 public:
  // Maps the file and binds the weights. `backend` must outlive the model.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, const ModelOptions& options,
                                             Backend* backend);
  ~Model();

  const ModelConfig& config() const { return config_; }
  const StateLayout& layout() const { return layout_; }
  // Of the draft head; null when the model has none.
  const StateLayout* draft_layout() const { return draft_ ? &draft_layout_ : nullptr; }
  static constexpr int64_t kMaxWindow = 8;
  size_t log_bytes() const { return log_bytes_; }
  const GgufFile& file() const { return *file_; }
  const GgufFile* mtp_file() const { return mtp_file_.get(); }
  Backend* backend() const { return backend_; }
  // The routed experts of every layer, the draft head's last.
  std::span<const ExpertLayer> expert_layers() const { return expert_layers_; }
  // Experts will be read from this file of `holdfast prepare` instead of the model's. Before
  // StreamExperts(). Errors: those of ExpertFile::Open(); nothing has changed then.
  Status UseExpertFile(const std::string& path);
  // Null without.
  const ExpertFile* expert_file() const { return expert_file_.get(); }
  // Reads all weights once. With an expert file they are compared with the checksums it has;
  // without, it can only be seen that all can be read. kDataLoss naming the file and what of it.
  Status VerifyWeights(const std::function<void(double fraction)>& progress) const;
  // From here on experts are read into an arena instead of being used where the file is mapped.
  // Before the first step, once.
  Status StreamExperts(const ExpertTierOptions& options);
  // The n-gram table; !exists() when the model has none.
  NgramTable ngram_table() const;
  // The same for its rows: from here on they are read when a step needs them.
  Status StreamNgramRows(const NgramTierOptions& options);
  // Reads the mapped weights that steps use into the page cache, of a mapped n-gram table only if
  // `table`; hears how much of them is there.
  Status ReadIn(bool table, const std::function<void(double fraction)>& progress) const;
  // Weights of the file (file_bytes) that the backend reads faster from copies (copy_bytes).
  struct RepackSizes {
    uint64_t file_bytes = 0, copy_bytes = 0;
  };
  RepackSizes repack_sizes() const;
  // Has it make these copies; the mapped ones are not used any more. Before the first step, and not
  // with StreamExperts(). kDataLoss as CheckReads().
  Status RepackWeights(const std::function<void(double fraction)>& progress);
  // What has been.
  const RepackSizes& repacked() const { return repacked_; }
  // Null: they are used where the file is mapped.
  ExpertTier* expert_tier() const { return tier_.get(); }
  NgramTier* ngram_tier() const { return ngram_tier_.get(); }
  int64_t max_rows() const { return options_.max_rows; }
  // Scratch and converted weights: what is allocated beside the mapped files.
  size_t buffer_bytes() const;
  // Rows whose logits are computed at once; more follow in further rounds.
  int64_t max_outputs() const { return std::min<int64_t>(32, options_.max_rows); }

  // Runs all rows of `batch` and updates their conversations' state.
  // logits: [output_rows, vocab_size]; mixed: empty or [output_rows, hidden_size], the input of
  // output.weight. kInvalidArgument for token ids outside the vocabulary, before anything changes.
  // Logits that are not finite are returned as they are. kDataLoss, in this call and all later
  // ones, when a file of weights could not be read: what was computed is of no use.
  Status Forward(const Batch& batch, std::span<float> logits, std::span<float> mixed = {});

  // That kDataLoss. Any thread.
  Status CheckReads() const;

  // After a Forward() in which these sequences had a log: their first n_rows[i] rows count, the
  // others never happened.
  Status Commit(std::span<const SequenceRows> sequences, std::span<const int64_t> n_rows);
  // Guesses by the draft head, each sequence until its max_drafts, or until the probability that
  // all of its guesses are right is below min_probability (that guess is left out).
  Result<std::vector<std::vector<int32_t>>> Draft(std::span<const DraftSequence> sequences,
                                                  float min_probability);

  // Called with every intermediate value while set; slow.
  void set_tap(Tap tap) { tap_ = std::move(tap); }
  // Called in every step while set: with every row, also those whose logits nobody wants, and again
  // with those that are wanted. Slow.
  void set_row_observer(RowObserver observer) { row_observer_ = std::move(observer); }

 private:
  struct GdnLayer;
  struct QsaLayer;
  struct PleLayer;
  struct Layer;
  struct Hc;
  struct Scratch;
  struct DraftHead;
  struct DraftRows;

  Model(Backend* backend, const ModelOptions& options);
  Status LoadWeights();
  Status LoadLayer(int index, const LayerWeights& weights, const StateLayout& layout, Layer* layer);
  Status LoadDraft(const MtpWeights& weights);
  void PlanLog();
  Status LoadHc(const HcWeights& weights, Hc* hc);
  Result<BufferRef> LoadFloats(const WeightView& view);
  Result<BufferRef> LoadConv(const WeightView& view);
  Result<BufferRef> UploadFloats(std::span<const float> values);
  Result<const Weight*> LoadWeight(const WeightView& view);
  // A weight that only products read, whose activations may be quantised.
  Result<const Weight*> LoadProduct(const WeightView& view);
  Status AllocateScratch();

  Status CheckBatch(const Batch& batch) const;
  Status CheckTokens(std::span<const int32_t> ids, int64_t first_position) const;
  void AddTableRows(const SequenceRows& sequence);
  Status FollowWithDraft(const Batch& batch, std::span<const Segment> segments);
  Status RunStep(const StepRows& rows, std::span<const int32_t> tokens, const Batch& batch,
                 std::span<float> logits, std::span<float> mixed);
  Status RunLayer(const Layer& layer, const StepRows& rows);
  Status RunGdn(const Layer& layer, const StepRows& rows);
  Status RunQsa(const Layer& layer, const StepRows& rows);
  Status RunMoe(const Layer& layer, const StepRows& rows);
  Status RunPle(const Layer& layer, const StepRows& rows);
  Status RunHcRead(const Hc& hc, int64_t n_rows);
  Status RunOutput(std::span<const int32_t> rows, std::span<float> logits, std::span<float> mixed);
  Status ReduceOutput(const Batch& batch);
  // Into the scratch, at most max_outputs() rows.
  Status RunOutputRound(std::span<const int32_t> rows);
  // The draft head's cells for rows whose trunk streams are known; hands the last one over.
  Status RunDraftCells(std::span<const DraftRows> sequences);
  Status RunDraftStep(std::span<const DraftRows> sequences, std::span<float> logits);
  Status RunDraftInput(std::span<const DraftRows> sequences, std::vector<int32_t>* tokens,
                       std::vector<Segment>* segments);
  Status EmitRows(const Batch& batch, std::span<const float> logits);
  Status EmitTap(std::string_view what, int layer, BufferRef ref, int64_t n_rows, int64_t n_cols,
                 bool integers = false);

  Backend* backend_;
  ModelOptions options_;
  std::unique_ptr<GgufFile> file_, mtp_file_;
  ModelConfig config_;
  StateLayout layout_, draft_layout_;
  std::vector<std::unique_ptr<Weight>> weights_;
  std::vector<Weight*> products_;  // of these: LoadProduct()'s
  RepackSizes repacked_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  const Weight* token_embd_ = nullptr;
  const Weight* output_ = nullptr;
  std::unique_ptr<Hc> output_hc_;
  std::vector<Layer> layers_;
  std::unique_ptr<DraftHead> draft_;
  std::vector<ExpertLayer> expert_layers_;
  std::unique_ptr<ExpertFile> expert_file_;
  WeightView ngram_table_;
  std::unique_ptr<ExpertTier> tier_;
  std::unique_ptr<NgramTier> ngram_tier_;
  std::unique_ptr<Scratch> scratch_;
  // What a window's log holds and how it is committed.
  size_t log_bytes_ = 0, log_hidden_offset_ = 0;
  std::vector<CommitArgs::Gdn> commit_gdn_;
  std::vector<CommitArgs::Conv> commit_convs_;
  std::vector<CommitArgs::Tail> commit_tails_;
  std::vector<int64_t> table_rows_;  // of the step
  Tap tap_;
  RowObserver row_observer_;
};

}  // namespace holdfast

#endif  // HOLDFAST_MODEL_MODEL_H_
