// Ten thousand damaged files through everything that reads one. Nothing may crash (the sanitizer
// build sees every byte out of place) or ask for memory that the file's size does not explain.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"
#include "weights/synth_model.h"

// The largest block asked for, for the whole test binary.
static std::atomic<size_t> largest_allocation = 0;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HOLDFAST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HOLDFAST_SANITIZED
#endif
#endif

#ifdef HOLDFAST_SANITIZED
// The sanitizer brings its own operator new; let it do the counting.
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256"; }
#else
// Not inlined: g++ 12 would see free() of a pointer from new and call it a mismatch.
__attribute__((noinline)) void* operator new(size_t n) {
  size_t largest = largest_allocation.load(std::memory_order_relaxed);
  while (n > largest && !largest_allocation.compare_exchange_weak(largest, n)) {
  }
  if (void* p = std::malloc(n)) return p;
  throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void* p) noexcept { std::free(p); }
__attribute__((noinline)) void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace holdfast {
namespace {

constexpr uint64_t kSeed = 20260801;

// Everything that looks at a file: reading, printing, the config, the bound weights, decoding.
// True when the file was accepted.
bool Exercise(std::span<const std::byte> bytes) {
  const auto file = GgufFile::Parse(bytes, "mutant");
  if (!file.ok()) return false;
  size_t n_chars = 0;
  for (const GgufValue& value : (*file)->values()) n_chars += value.ToText().size();
  const Result<ModelConfig> config = ReadModelConfig(**file);
  if (!config.ok()) return false;
  const Result<ModelWeights> weights = BindModelWeights(*config, **file);
  if (!weights.ok()) return false;
  for (const LayerWeights& layer : weights->layers) {
    n_chars += ToFloats(layer.hc_attn.norm).size() + ToFloats(layer.moe.router).size();
  }
  return n_chars > 0;
}

struct Counts {
  int n_accepted = 0, n_refused = 0;
};

// Mutates `bytes` in place and undoes it again. `header_bytes`: where metadata and tensor list end;
// damage to the weights themselves cannot be noticed and is tried less.
Counts Mutate(std::vector<std::byte> bytes, size_t header_bytes, int n_mutants, bool exact_copies) {
  std::mt19937_64 random(kSeed);
  constexpr uint64_t kExtremes[] = {0,          1,          0xff,       0x7fffffff,
                                    0x80000000, 0xffffffff, 1ull << 32, 1ull << 60,
                                    INT64_MAX,  1ull << 63, UINT64_MAX, UINT64_MAX - 31};
  Counts counts;
  const auto count = [&](bool accepted) { ++(accepted ? counts.n_accepted : counts.n_refused); };
  for (int i = 0; i < n_mutants; ++i) {
    const size_t limit = random() % 8 == 0 ? bytes.size() : header_bytes;
    size_t n = bytes.size();
    std::byte saved[8];
    const size_t at = random() % (limit - 8);
    std::memcpy(saved, bytes.data() + at, 8);
    switch (random() % 4) {
      case 0:
        n = random() % limit;
        break;  // truncated
      case 1:
        bytes[at] ^= static_cast<std::byte>(1u << (random() % 8));
        break;
      case 2: {  // a field enlarged, or made small
        const uint64_t value = kExtremes[random() % std::size(kExtremes)];
        std::memcpy(bytes.data() + at, &value, random() % 2 == 0 ? 4 : 8);
        break;
      }
      default: {  // a run of noise
        const uint64_t value = random();
        std::memcpy(bytes.data() + at, &value, 1 + random() % 8);
      }
    }
    if (exact_copies) {
      count(Exercise(
          std::vector<std::byte>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(n))));
    } else {
      count(Exercise(std::span(bytes).first(n)));
    }
    std::memcpy(bytes.data() + at, saved, 8);
  }
  return counts;
}

size_t HeaderBytes(std::span<const std::byte> bytes) {
  return GgufFile::Parse(bytes, "whole").value()->tensors().front().file_offset;
}

TEST(GgufMutationTest, NineThousandMutantsOfASmallModel) {
  SynthSpec spec = TinySynth();
  spec.n_layers = 2;
  spec.full_attention_interval = 2;
  spec.vocab_size = 16;
  spec.n_experts = 2;
  const std::vector<std::byte> bytes = MakeSynthModel(spec).value().ToBytes();
  ASSERT_TRUE(Exercise(bytes));
  largest_allocation = 0;
  const Counts counts = Mutate(bytes, HeaderBytes(bytes), 9000, /*exact_copies=*/true);
  // The copy of the file itself is the largest thing that a mutant needs.
  EXPECT_LE(largest_allocation.load(), bytes.size() + (64u << 10)) << "seed " << kSeed;
  // Both must happen, or the mutations test nothing.
  EXPECT_GT(counts.n_refused, 4500);
  EXPECT_GT(counts.n_accepted, 400);
}

TEST(GgufMutationTest, AThousandMutantsOfAConvertedModel) {
  const MappedFile file =
      MappedFile::Open(HOLDFAST_SOURCE_DIR "/tests/fixtures/tinyC-mtp-bf16.gguf").value();
  const std::vector<std::byte> bytes(file.bytes().begin(), file.bytes().end());
  ASSERT_TRUE(Exercise(bytes));
  largest_allocation = 0;
  const Counts counts = Mutate(bytes, HeaderBytes(bytes), 1000, /*exact_copies=*/false);
  EXPECT_LE(largest_allocation.load(), bytes.size()) << "seed " << kSeed;
  EXPECT_GT(counts.n_refused, 250);
  EXPECT_GT(counts.n_accepted, 50);
}

}  // namespace
}  // namespace holdfast
