// A GGUF file of any bytes: read, printed, understood as a model, bound, partly decoded. Seeds: a
// file with every type of value, and the smallest models, with and without a draft layer.
#include <cstddef>
#include <cstdint>
#include <span>

#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"

namespace holdfast {
namespace {

void Exercise(std::span<const std::byte> bytes) {
  const auto file = GgufFile::Parse(bytes, "fuzz");
  if (!file.ok()) return;
  for (const GgufValue& value : (*file)->values()) {
    (void)value.ToText();
    (void)value.Ints(INT32_MIN, INT32_MAX).ok();
    (void)value.Uint64s().ok();
    (void)value.Floats().ok();
    (void)value.Strings().ok();
    (void)value.Bool().ok();
    (void)value.Float(-1e30, 1e30).ok();
  }
  for (const ZeroRatioPolicy policy : {ZeroRatioPolicy::kBlocksOf4, ZeroRatioPolicy::kDense}) {
    const Result<ModelConfig> config = ReadModelConfig(**file, nullptr, {policy});
    if (!config.ok()) return;
    const Result<ModelWeights> weights = BindModelWeights(*config, **file);
    if (!weights.ok()) return;
    // As its own sidecar, which is allowed when it has a draft layer.
    const Result<ModelConfig> both = ReadModelConfig(**file, file->get(), {policy});
    if (both.ok()) (void)BindModelWeights(*both, **file, file->get()).ok();
    for (const LayerWeights& layer : weights->layers) {
      (void)ToFloats(layer.hc_attn.norm);
      (void)ToFloats(layer.moe.down.Mat(layer.moe.down.n_mats - 1));
    }
  }
}

}  // namespace
}  // namespace holdfast

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::Exercise({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
