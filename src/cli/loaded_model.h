#ifndef HOLDFAST_CLI_LOADED_MODEL_H_
#define HOLDFAST_CLI_LOADED_MODEL_H_

#include <functional>
#include <memory>
#include <string_view>

#include "cli/model_options.h"
#include "server/model_service.h"

namespace holdfast::cli {

// An engine and the service of it that commands and APIs use. The engine outlives the service's
// requests: destroy this last.
struct LoadedModel {
  std::unique_ptr<Engine> engine;
  std::shared_ptr<const ModelService> service;
};

Result<LoadedModel> LoadModel(const EngineOptions& options, const Engine::Progress& progress);

// Shows loading on a terminal's standard error as one changing line; nothing elsewhere.
Engine::Progress TerminalProgress();
// What the plan had to change or leave out, to standard error.
void PrintNotes(const Engine& engine);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_LOADED_MODEL_H_
