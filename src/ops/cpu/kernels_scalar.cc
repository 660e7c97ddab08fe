#include "ops/cpu/kernels.h"
#include "ops/cpu/scalar_kernels.h"

namespace holdfast {

const KernelTable& ScalarKernels() {
  static constexpr KernelTable kTable = {
      .name = "scalar",
      .rms_norm = scalar::RmsNorm,
      .dot = scalar::Dot,
      .quantize = scalar::Quantize,
      .residual = scalar::Residual,
      .matmul = scalar::MatMul,
      .sigmoid = scalar::SigmoidAll,
      .silu = scalar::SiluAll,
      .swiglu = scalar::Swiglu,
      .sigmoid_mul = scalar::SigmoidMul,
      .axpy = scalar::Axpy,
      .hc_mix = scalar::HcMix,
      .conv_silu = scalar::ConvSilu,
      .gdn = scalar::Gdn,
      .gdn_commit = scalar::GdnCommit,
      .attention = scalar::Attention,
      .index_scores = scalar::IndexScores,
      .exp_sum = scalar::ExpSum,
  };
  return kTable;
}

}  // namespace holdfast
