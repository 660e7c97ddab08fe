#ifndef HOLDFAST_ENGINE_PLAN_INPUT_H_
#define HOLDFAST_ENGINE_PLAN_INPUT_H_

#include "base/host_memory.h"
#include "engine/engine.h"
#include "engine/memory_plan.h"
#include "model/model.h"

namespace holdfast {

// What an engine with these options plans the memory of a model from. Points into `model`.
MemoryPlanInput PlanInput(const EngineOptions& options, const Model& model, const HostMemory& host);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_PLAN_INPUT_H_
