#ifndef HOLDFAST_CLI_SYNTH_H_
#define HOLDFAST_CLI_SYNTH_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>

#include "base/status.h"

namespace holdfast::cli {

// What `holdfast synth` makes. Unset fields keep what the preset says.
struct SynthOptions {
  std::string out_path;
  std::string preset = "flash-next";  // released dimensions; also flash-next-8x64, tiny
  std::optional<int> n_layers;        // trunk
  std::optional<int> n_experts;
  std::optional<int> n_experts_used;  // default: the preset's, at most n_experts
  std::optional<int64_t> vocab_size;
  std::optional<int64_t> ngram_rows;  // rows of each n-gram head, the next prime from here on
  std::string types;                  // as ParseSynthTypes() (weights/synth_model.h)
  std::string tokenizer_path;         // a GGUF whose tokenizer is copied; empty: none
  bool mtp = false;                   // a draft layer at the end
  bool fused_gate_up = false;
  uint64_t seed = 1;
  int n_threads = 2;
};

// Writes a GGUF of real layer dimensions with seeded random weights, and prints what it made.
// Errors: kInvalidArgument naming the option; kResourceExhausted when the disk has no room for it,
// before anything is written; those of writing.
Status RunSynth(const SynthOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_SYNTH_H_
