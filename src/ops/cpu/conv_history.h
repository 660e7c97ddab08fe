#ifndef HOLDFAST_OPS_CPU_CONV_HISTORY_H_
#define HOLDFAST_OPS_CPU_CONV_HISTORY_H_

#include <cstdint>
#include <cstring>

namespace holdfast {

// The columns a causal convolution looks back on: `n_kept` from the running state, oldest first,
// followed by the rows of this step.
class ConvHistory {
 public:
  static constexpr int kMaxTaps = 32;  // also the limit the config reader sets

  ConvHistory(float* kept, int64_t n_kept, int64_t width, const float* rows)
      : kept_(kept), n_kept_(n_kept), width_(width), rows_(rows) {}

  // Column of local row `i`; negative ones are from before this step.
  const float* Column(int64_t i) const {
    return i < 0 ? kept_ + (n_kept_ + i) * width_ : rows_ + i * width_;
  }

  // Keeps the last n_kept columns once `n_rows` rows are done.
  void Advance(int64_t n_rows) const {
    for (int64_t j = 0; j < n_kept_; ++j) {  // ascending: sources lie ahead of what is written
      std::memmove(kept_ + j * width_, Column(n_rows - n_kept_ + j), width_ * sizeof(float));
    }
  }

 private:
  float* kept_;
  int64_t n_kept_, width_;
  const float* rows_;
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_CPU_CONV_HISTORY_H_
