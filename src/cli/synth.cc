#include "cli/synth.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>

#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"
#include "weights/synth_model.h"

namespace holdfast::cli {
namespace {

Result<SynthSpec> PresetSpec(const std::string& preset) {
  if (preset == "flash-next") return SynthSpec();
  if (preset == "flash-next-8x64") return FlashNext8x64();
  if (preset == "tiny") {
    SynthSpec spec = TinySynth();
    spec.vocab_size = 512;  // a file without tokenizer runs by ids, which want one for each byte
    return spec;
  }
  return InvalidArgumentError(
      fmt::format("--preset: found \"{}\", wanted flash-next, flash-next-8x64 or tiny", preset));
}

Result<SynthSpec> MakeSpec(const SynthOptions& options) {
  HF_ASSIGN_OR_RETURN(SynthSpec spec, PresetSpec(options.preset));
  spec.n_layers = options.n_layers.value_or(spec.n_layers);
  spec.n_experts = options.n_experts.value_or(spec.n_experts);
  spec.n_experts_used =
      options.n_experts_used.value_or(std::min(spec.n_experts_used, spec.n_experts));
  spec.vocab_size = options.vocab_size.value_or(spec.vocab_size);
  spec.ple_head_rows = options.ngram_rows.value_or(spec.ple_head_rows);
  spec.mtp = options.mtp;
  spec.fused_gate_up = options.fused_gate_up;
  spec.seed = options.seed;
  if (!options.types.empty()) {
    HF_ASSIGN_OR_RETURN(spec.types, ParseSynthTypes(options.types));
  }
  return spec;
}

Status CheckRoom(const std::string& path, int64_t n_bytes) {
  const std::filesystem::path directory = std::filesystem::absolute(path).parent_path();
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(directory, error);
  if (error) return ErrnoError(error.value(), directory.string());
  if (space.available >= static_cast<uint64_t>(n_bytes)) return OkStatus();
  return ResourceExhaustedError(
      fmt::format("{}: the model takes {:.1f} GB, the disk has {:.1f} GB free", path,
                  static_cast<double>(n_bytes) / 1e9, static_cast<double>(space.available) / 1e9));
}

// The file as any other: what this program cannot load it must not call made.
Status CheckLoads(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(path));
  HF_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*file));
  return BindModelWeights(config, *file).status();
}

}  // namespace

Status RunSynth(const SynthOptions& options, std::ostream& out) {
  if (options.out_path.empty()) return InvalidArgumentError("no output path, wanted OUT.gguf");
  HF_ASSIGN_OR_RETURN(const SynthSpec spec, MakeSpec(options));
  std::unique_ptr<GgufFile> tokenizer;
  if (!options.tokenizer_path.empty()) {
    if (options.vocab_size.has_value()) {
      return InvalidArgumentError(
          "--vocab: the vocabulary is the tokenizer's, wanted only one of --vocab and --tokenizer");
    }
    HF_ASSIGN_OR_RETURN(tokenizer, GgufFile::Open(options.tokenizer_path));
  }
  HF_ASSIGN_OR_RETURN(const GgufWriter writer, MakeSynthModel(spec, tokenizer.get()));
  HF_RETURN_IF_ERROR(CheckRoom(options.out_path, writer.tensor_bytes()));
  const auto start = std::chrono::steady_clock::now();
  HF_RETURN_IF_ERROR(writer.WriteFile(options.out_path, std::max(1, options.n_threads)));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  HF_RETURN_IF_ERROR(CheckLoads(options.out_path));
  fmt::print(out, "{}: {} layers, {} experts, {} tensors, {:.2f} GB, written in {:.1f} s\n",
             options.out_path, spec.n_layers, spec.n_experts, writer.n_tensors(),
             static_cast<double>(writer.tensor_bytes()) / 1e9, seconds.count());
  return OkStatus();
}

}  // namespace holdfast::cli
