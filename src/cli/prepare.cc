#include "cli/prepare.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <chrono>

#include "cli/find_model.h"
#include "cli/loaded_model.h"
#include "engine/prepare_experts.h"
#include "weights/expert_file.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"

namespace holdfast::cli {

Status RunPrepare(const PrepareCommandOptions& options, std::ostream& out) {
  HF_ASSIGN_OR_RETURN(const std::string model_path, FindModel(options.model_path));
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> model, GgufFile::Open(model_path));
  HF_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(*model));
  HF_ASSIGN_OR_RETURN(const ModelWeights weights, BindModelWeights(config, *model));
  const std::string out_path =
      options.out_path.empty() ? ExpertFile::PathBeside(model_path) : options.out_path;
  const Engine::Progress show = TerminalProgress();
  const auto start = std::chrono::steady_clock::now();
  HF_ASSIGN_OR_RETURN(const PrepareReport report,
                      PrepareExperts(*model, ExpertLayersOf(weights, *model),
                                     {.out_path = out_path, .progress = [&](double fraction) {
                                        show("copying experts", fraction);
                                      }}));
  show("copying experts", 1.0);
  if (report.was_done) {
    fmt::print(out, "{}: is there already, and of this model\n", out_path);
    return OkStatus();
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print(out, "{}: {} experts of {} layers, {:.2f} GB, written in {:.1f} s{}\n", out_path,
             report.n_experts, report.n_layers, static_cast<double>(report.file_bytes) / 1e9,
             seconds.count(),
             report.n_layers_resumed == 0
                 ? ""
                 : fmt::format(" ({} layers were there from before)", report.n_layers_resumed));
  return OkStatus();
}

}  // namespace holdfast::cli
