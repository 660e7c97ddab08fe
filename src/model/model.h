#ifndef HOLDFAST_MODEL_MODEL_H_
#define HOLDFAST_MODEL_MODEL_H_

// The qwen4exp forward pass (spec: qwen4exp), written once over the backend's ops.

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
#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"

namespace holdfast {

struct ModelOptions {
  std::string mtp_path;  // draft-head sidecar; empty: what the trunk file has
  KvFormat kv_format = KvFormat::kInt8;
  int page_tokens = StateLayout::kDefaultPageTokens;
  int64_t max_rows = 512;  // rows of one step; scratch is sized for it
  ModelConfigOptions config;
};

// Consecutive new rows of one conversation: positions [first_position, tokens.size()).
struct SequenceRows {
  std::span<const int32_t> tokens;  // the whole conversation up to and including the new rows
  int64_t first_position = 0;
  Buffer* running = nullptr;       // the state at first_position; at tokens.size() afterwards
  std::span<Buffer* const> pages;  // covers tokens.size() cells
  int64_t n_rows() const { return static_cast<int64_t>(tokens.size()) - first_position; }
};

struct Batch {
  std::vector<SequenceRows> sequences;  // rows of the step, in this order
  std::vector<int32_t> output_rows;     // rows whose logits are wanted
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

// Threads: one caller at a time.
class Model {
 public:
  // Maps the file and binds the weights. `backend` must outlive the model.
  static Result<std::unique_ptr<Model>> Load(const std::string& path, const ModelOptions& options,
                                             Backend* backend);
  ~Model();

  const ModelConfig& config() const { return config_; }
  const StateLayout& layout() const { return layout_; }
  const GgufFile& file() const { return *file_; }
  const GgufFile* mtp_file() const { return mtp_file_.get(); }
  Backend* backend() const { return backend_; }
  int64_t max_rows() const { return options_.max_rows; }

  // Runs all rows of `batch` and updates their conversations' state.
  // logits: [output_rows, vocab_size]; mixed: empty or [output_rows, hidden_size], the input of
  // output.weight. kInvalidArgument for token ids outside the vocabulary, before anything changes.
  // Logits that are not finite are returned as they are.
  Status Forward(const Batch& batch, std::span<float> logits, std::span<float> mixed = {});

  // Called with every intermediate value while set; slow.
  void set_tap(Tap tap) { tap_ = std::move(tap); }

 private:
  struct Layer;
  struct Hc;
  struct Scratch;

  Model(Backend* backend, const ModelOptions& options);
  Status LoadWeights();
  Status LoadLayer(int index, const LayerWeights& weights, Layer* layer);
  Status LoadHc(const HcWeights& weights, Hc* hc);
  Result<BufferRef> LoadFloats(const WeightView& view);
  Result<BufferRef> LoadConv(const WeightView& view);
  Result<BufferRef> UploadFloats(std::span<const float> values);
  Result<const Weight*> LoadWeight(const WeightView& view);
  Status AllocateScratch();

  Status CheckBatch(const Batch& batch) const;
  Status RunStep(const StepRows& rows, std::span<const int32_t> tokens,
                 std::span<const int32_t> output_rows, std::span<float> logits,
                 std::span<float> mixed);
  Status RunLayer(const Layer& layer, const StepRows& rows);
  Status RunGdn(const Layer& layer, const StepRows& rows);
  Status RunQsa(const Layer& layer, const StepRows& rows);
  Status RunMoe(const Layer& layer, const StepRows& rows);
  Status RunPle(const Layer& layer, const StepRows& rows);
  Status RunHcRead(const Hc& hc, int64_t n_rows);
  Status RunOutput(std::span<const int32_t> rows, std::span<float> logits, std::span<float> mixed);
  Status EmitTap(std::string_view what, int layer, BufferRef ref, int64_t n_rows, int64_t n_cols,
                 bool integers = false);

  Backend* backend_;
  ModelOptions options_;
  std::unique_ptr<GgufFile> file_, mtp_file_;
  ModelConfig config_;
  StateLayout layout_;
  std::vector<std::unique_ptr<Weight>> weights_;
  std::vector<std::unique_ptr<Buffer>> buffers_;
  const Weight* token_embd_ = nullptr;
  const Weight* output_ = nullptr;
  std::unique_ptr<Hc> output_hc_;
  std::vector<Layer> layers_;
  std::unique_ptr<Scratch> scratch_;
  std::vector<int64_t> table_rows_;  // of the step
  Tap tap_;
};

}  // namespace holdfast

#endif  // HOLDFAST_MODEL_MODEL_H_
