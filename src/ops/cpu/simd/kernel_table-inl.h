// The table of the set that includes this, from the vector kernels.
#ifndef HOLDFAST_OPS_CPU_SIMD_KERNEL_TABLE_INL_H_
#define HOLDFAST_OPS_CPU_SIMD_KERNEL_TABLE_INL_H_

#include "ops/cpu/kernel_sets.h"
#include "ops/cpu/simd/attention-inl.h"
#include "ops/cpu/simd/elementwise-inl.h"
#include "ops/cpu/simd/gdn-inl.h"
#include "ops/cpu/simd/index_scores-inl.h"
#include "ops/cpu/simd/matmul-inl.h"
#include "ops/cpu/simd/rows-inl.h"

namespace holdfast::HF_KERNEL_SET {

extern const KernelTable kTable;
constexpr KernelTable kTable = {
    .name = HF_KERNEL_SET_NAME,
    .rms_norm = RmsNorm,
    .dot = Dot,
    .quantize = Quantize,
    .residual = Residual,
    .matmul = MatMul,
    .sigmoid = SigmoidRow,
    .silu = SiluRow,
    .swiglu = Swiglu,
    .sigmoid_mul = SigmoidMul,
    .axpy = Axpy,
    .hc_mix = HcMix,
    .conv_silu = ConvSilu,
    .gdn = Gdn,
    .gdn_commit = GdnCommit,
    .attention = Attention,
    .index_scores = IndexScores,
    .exp_sum = ExpSum,
};

}  // namespace holdfast::HF_KERNEL_SET

#endif  // HOLDFAST_OPS_CPU_SIMD_KERNEL_TABLE_INL_H_
