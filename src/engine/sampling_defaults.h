#ifndef HOLDFAST_ENGINE_SAMPLING_DEFAULTS_H_
#define HOLDFAST_ENGINE_SAMPLING_DEFAULTS_H_

#include "base/status.h"
#include "engine/sampling_params.h"

namespace holdfast {

class GgufFile;

// How a model file wants to be sampled: general.sampling.{temp, top_k, top_p, min_p,
// penalty_repeat, penalty_last_n}, as llama.cpp's converter writes them. What the file does not say
// keeps SamplingParams' own default, so a file without any is greedy. Errors: a key of the wrong
// type or outside its range.
Result<SamplingParams> ReadSamplingDefaults(const GgufFile& file);

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_SAMPLING_DEFAULTS_H_
