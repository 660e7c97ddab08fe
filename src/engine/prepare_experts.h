#ifndef HOLDFAST_ENGINE_PREPARE_EXPERTS_H_
#define HOLDFAST_ENGINE_PREPARE_EXPERTS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/status.h"
#include "store/file_system.h"
#include "weights/expert_tier.h"

namespace holdfast {

struct PrepareOptions {
  std::string out_path;
  FileSystem* file_system = PosixFileSystem();
  std::function<void(double fraction)> progress;
};

struct PrepareReport {
  uint64_t file_bytes = 0;
  int64_t n_layers = 0, n_experts = 0;
  int64_t n_layers_resumed = 0;  // were there from an earlier call
  bool was_done = false;         // nothing was left to do
};

// Writes the experts file (weights/expert_file.h) of `model`. What was written by a call that did
// not come to its end is gone on with: OUT.part holds the experts, OUT.journal the checksums of the
// layers that are durable.
//
// Errors: kResourceExhausted with the arithmetic when the disk is too small, before anything is
// written; kAlreadyExists when OUT is something else; kUnavailable while another process writes it;
// those of the disk and of the model's file.
Result<PrepareReport> PrepareExperts(const GgufFile& model, std::span<const ExpertLayer> layers,
                                     const PrepareOptions& options);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_PREPARE_EXPERTS_H_
