#ifndef HOLDFAST_STATE_TESTING_RELEASED_CONFIG_H_
#define HOLDFAST_STATE_TESTING_RELEASED_CONFIG_H_

#include "weights/model_config.h"

namespace holdfast::testing {

// What of the released model (spec: qwen4exp, section 1) its state depends on, without a draft
// layer.
inline ModelConfig ReleasedConfig() {
  ModelConfig c;
  c.n_layers = 48;
  c.hidden_size = 2560;
  for (int l = 0; l < 48; ++l) {
    const bool qsa = (l + 1) % 4 == 0;
    c.layer_kinds.push_back(qsa ? LayerKind::kQsa : LayerKind::kGdn);
    c.block_ratio.push_back(qsa ? 4 : 0);
  }
  c.n_heads = 24, c.n_kv_heads = 2, c.head_dim = 256;
  c.n_index_heads = 4, c.index_dim = 128, c.index_budget = 2048;
  c.gdn_conv_kernel = 4, c.gdn_n_key_heads = 16, c.gdn_n_value_heads = 48, c.gdn_head_dim = 128;
  c.hc_streams = 4;
  c.ple = PleConfig{.layer = 1, .ngram_size = 3, .conv_kernel = 4};
  return c;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_STATE_TESTING_RELEASED_CONFIG_H_
