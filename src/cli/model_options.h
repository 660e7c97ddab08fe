#ifndef HOLDFAST_CLI_MODEL_OPTIONS_H_
#define HOLDFAST_CLI_MODEL_OPTIONS_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "engine/engine.h"

namespace holdfast::cli {

// The flags that every command with a model has, as typed.
struct ModelOptions {
  std::string model;  // empty: the demo model
  std::string mtp;    // empty: a sidecar beside the model; "off": none
  int64_t ctx = 0;    // 0: the trained length, or what memory allows
  int threads = 0;    // 0: all CPUs
  std::string kv = "int8";
  std::string activations = "auto";
  std::string kernels = "auto";
  std::string draft = "auto";          // auto, off, or guesses in a window
  std::string draft_source = "auto";   // auto, mtp or lookup
  std::string draft_norm = "flat";     // flat or per-stream
  int64_t draft_vocab = 0;             // 0: all
  std::string expert_memory = "auto";  // auto, all or SIZE
  std::string ngram_memory = "auto";   // auto, all or SIZE
  std::string repack = "auto";         // auto, on or off
  std::string expert_reader = "auto";  // auto, io_uring or pread
  std::string expert_file = "auto";    // auto: one beside the model, off, or a file
  bool verify_weights = false;
};

// Finds the files and parses the names. Errors name the flag.
Result<EngineOptions> ToEngineOptions(const ModelOptions& options);

// The model's name in responses: its file without folder, ".gguf" and split number.
std::string ModelId(const std::string& model_path);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_MODEL_OPTIONS_H_
