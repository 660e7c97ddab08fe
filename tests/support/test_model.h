#ifndef HOLDFAST_TESTS_SUPPORT_TEST_MODEL_H_
#define HOLDFAST_TESTS_SUPPORT_TEST_MODEL_H_

// A model on one of the backends that every machine has, for tests.

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/sequence.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/deferred/deferred_backend.h"

namespace holdfast {

struct TestModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;

  static TestModel OnCpu(const std::string& path, const CpuBackendOptions& cpu,
                         const ModelOptions& options) {
    TestModel m;
    auto backend = CpuBackend::Create(cpu);
    EXPECT_TRUE(backend.ok()) << backend.status().ToString();
    m.backend = std::move(*backend);
    m.Load(path, options);
    return m;
  }
  static TestModel OnDeferred(const std::string& path, const CpuBackendOptions& cpu,
                              const ModelOptions& options) {
    TestModel m;
    auto backend = DeferredBackend::Create(cpu);
    EXPECT_TRUE(backend.ok()) << backend.status().ToString();
    m.backend = std::move(*backend);
    m.Load(path, options);
    return m;
  }
  // `backend`: "cpu" or "deferred".
  static TestModel On(const std::string& backend, const std::string& path,
                      const CpuBackendOptions& cpu, const ModelOptions& options) {
    return backend == "cpu" ? OnCpu(path, cpu, options) : OnDeferred(path, cpu, options);
  }
  void Load(const std::string& path, const ModelOptions& options) {
    auto loaded = Model::Load(path, options, backend.get());
    EXPECT_TRUE(loaded.ok()) << loaded.status().ToString();
    model = std::move(*loaded);
  }

  // Logits of positions >= first_output, row after row, reading in steps of `chunk`.
  std::vector<float> Logits(const std::vector<int32_t>& tokens, int64_t chunk = 0,
                            int64_t first_output = 0) {
    auto sequence = Sequence::Create(model.get());
    EXPECT_TRUE(sequence.ok());
    std::vector<float> all;
    const Status status =
        sequence->Read(tokens, chunk, first_output, [&](int64_t, std::span<const float> row) {
          all.insert(all.end(), row.begin(), row.end());
        });
    EXPECT_TRUE(status.ok()) << status.ToString();
    return all;
  }
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_TEST_MODEL_H_
