// A model behind a profiling backend: the same bits, and nothing of its work unseen.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/profile/profiling_backend.h"
#include "tests/support/fixtures.h"
#include "tests/support/random_tokens.h"
#include "tests/support/test_model.h"

namespace holdfast {
namespace {

TEST(ProfiledModelTest, GivesTheSameBitsOnBackendsThatRunAtOnceAndLater) {
  const std::string path = FixturePath("tinyA-mix.gguf");
  const std::vector<int32_t> tokens = [] {
    std::vector<int32_t> ids(70);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 37 % 2000);
    return ids;
  }();
  TestModel plain = TestModel::OnCpu(path, {.n_threads = 2}, {});
  const std::vector<float> expected = plain.Logits(tokens);
  for (const char* kind : {"cpu", "deferred"}) {
    TestModel inner = TestModel::On(kind, path, {.n_threads = 2}, {});
    inner.model.reset();
    const auto profile = std::make_shared<Profile>(/*keep_events=*/true);
    TestModel profiled;
    profiled.backend = std::make_unique<ProfilingBackend>(inner.backend.get(), profile);
    profiled.Load(path, {});
    EXPECT_EQ(profiled.Logits(tokens, 23), expected) << kind;
    EXPECT_THAT(profile->Table(), ::testing::HasSubstr("3 steps of more rows, 23.0 rows"));
    EXPECT_THAT(profile->Table(), ::testing::HasSubstr("1 steps of 1 row"));
    EXPECT_FALSE(profile->in_step());
    profiled.model.reset();
  }
}

}  // namespace
}  // namespace holdfast
