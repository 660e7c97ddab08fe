#ifndef HOLDFAST_WEIGHTS_RANDOM_ROWS_H_
#define HOLDFAST_WEIGHTS_RANDOM_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "weights/quant_type.h"

namespace holdfast {

// Seeded random rows of any decodable type, for models of real sizes without real weights. The
// decoded values have mean about 0 and the asked standard deviation: blocks are random codes with
// sane scales, not quantised numbers, so gigabytes take seconds.
//
// Each row depends on (seed, row) only, so rows may be made in any order, on any thread.
class RandomRows {
 public:
  // Values are mean + sigma * noise; a mean other than 0 only for F32, F16 and BF16. `n_cols` must
  // be a whole number of blocks.
  RandomRows(QuantType type, int64_t n_cols, float sigma, uint64_t seed, float mean = 0.0f);

  // `out` is n_rows * RowBytes(type, n_cols) bytes.
  void Fill(int64_t first_row, int64_t n_rows, std::span<std::byte> out) const;

 private:
  void FillRow(int64_t row, std::byte* out) const;

  QuantType type_;
  int64_t n_cols_;
  int64_t row_bytes_;
  float sigma_;
  uint64_t seed_;
  float mean_;
  float scale_ = 0;  // block scale that gives sigma
};

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_RANDOM_ROWS_H_
