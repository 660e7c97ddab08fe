#include "cli/loaded_model.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "engine/sampling_defaults.h"
#include "grammar/grammar_cache.h"
#include "server/openai_common.h"
#include "server/reply_memory.h"
#include "server/request_history.h"
#include "server/request_metrics.h"
#include "server/slot_names.h"

namespace holdfast::cli {

Result<LoadedModel> LoadModel(const EngineOptions& options, const Engine::Progress& progress) {
  LoadedModel loaded;
  HF_ASSIGN_OR_RETURN(loaded.engine, Engine::Create(options, progress));
  auto service = std::make_shared<ModelService>();
  service->generator = loaded.engine.get();
  service->engine = loaded.engine.get();
  Persistence* const persistence = loaded.engine->persistence();
  service->replies =
      std::make_shared<ReplyMemory>(persistence != nullptr ? persistence->store() : nullptr);
  service->history = std::make_shared<RequestHistory>();
  service->metrics = std::make_shared<RequestMetrics>();
  service->slots = std::make_shared<SlotNames>(service->engine->plan().n_slots);
  service->tokenizer = &loaded.engine->tokenizer();
  service->grammars = std::make_shared<GrammarCache>(service->tokenizer);
  service->chat_template = &loaded.engine->chat_template();
  service->model_id = ModelId(options.model_path);
  service->created_s = UnixTime();
  HF_ASSIGN_OR_RETURN(service->default_sampling, ReadSamplingDefaults(loaded.engine->file()));
  loaded.service = std::move(service);
  return loaded;
}

Engine::Progress TerminalProgress() {
  if (::isatty(STDERR_FILENO) == 0) return [](std::string_view, double) {};
  return [](std::string_view phase, double fraction) {
    fmt::print(stderr, "\r\033[K");
    if (fraction < 1.0) fmt::print(stderr, "{} {:.0f}%", phase, fraction * 100);
    std::fflush(stderr);
  };
}

void PrintNotes(const Engine& engine) {
  for (const std::string& note : engine.plan().notes) fmt::print(stderr, "note: {}\n", note);
}

}  // namespace holdfast::cli
