// Random scripts (tests/property/script.h). A failure prints its seed:
// HOLDFAST_PROPERTY_SEED=<seed> runs just that script. HOLDFAST_PROPERTY_SCRIPTS says how many
// (`make soak` runs more).

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "tests/property/script.h"
#include "tests/support/engine_client.h"
#include "tests/support/fixtures.h"
#include "tests/support/random_tokens.h"
#include "tests/support/slow_build.h"

namespace holdfast {
namespace {

std::optional<uint64_t> NumberFrom(const char* variable) {
  const char* value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  return std::strtoull(value, nullptr, 10);
}

class TempFolder {
 public:
  TempFolder() {
    std::error_code error;
    // In RAM where possible: what is tested here is not the disk.
    const std::filesystem::path shm = "/dev/shm";
    const bool in_ram = ::access("/dev/shm", W_OK) == 0;
    path_ = ((in_ram ? shm : std::filesystem::temp_directory_path(error)) / "hf_property_XXXXXX")
                .string();
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<TokenId> RandomTokens(uint64_t seed, int64_t n, int32_t vocab) {
  std::mt19937_64 random(seed);
  std::vector<TokenId> tokens(n);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % vocab);
  return tokens;
}

struct Kind {
  std::string name, file;
  KvFormat kv_format;
  int n_threads;
  int64_t n_scripts;
};

class PropertyTest : public ::testing::TestWithParam<Kind> {};

TEST_P(PropertyTest, EveryReplyAndStateIsThatOfItsConversationAlone) {
  auto model = ScriptModel::Load(FixturePath(GetParam().file), {.n_threads = GetParam().n_threads},
                                 GetParam().kv_format);
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  const auto one = NumberFrom("HOLDFAST_PROPERTY_SEED");
  const uint64_t first = one.value_or(std::random_device()() % 1'000'000'000);
  const int64_t n = one ? 1
                        : static_cast<int64_t>(NumberFrom("HOLDFAST_PROPERTY_SCRIPTS")
                                                   .value_or(kSlowBuild ? GetParam().n_scripts / 5
                                                                        : GetParam().n_scripts));
  int64_t n_requests = 0, n_reused = 0;
  for (int64_t i = 0; i < n; ++i) {
    TempFolder folder;
    Script script(&*model, first + i, folder.path());
    const std::string wrong = script.Run();
    ASSERT_EQ(wrong, "") << "HOLDFAST_PROPERTY_SEED=" << first + i << "\n" << script.log();
    n_requests += script.n_requests();
    n_reused += script.n_reused();
  }
  std::printf("%s: seeds %llu to %llu, %lld requests, %lld tokens reused\n",
              GetParam().name.c_str(), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + n - 1), static_cast<long long>(n_requests),
              static_cast<long long>(n_reused));
  if (n >= 20) {
    EXPECT_GT(n_reused, n_requests);  // reading is not all they do
  }
}

// Clients in threads of their own; two lives of an engine with one store.
TEST(EngineClientsTest, RepliesOfManyClientsAreThoseOfEachAlone) {
  constexpr int kClients = 4, kRequests = kSlowBuild ? 3 : 6;
  const uint64_t seed =
      NumberFrom("HOLDFAST_PROPERTY_SEED").value_or(std::random_device()() % 1'000'000'000);
  SCOPED_TRACE("HOLDFAST_PROPERTY_SEED=" + std::to_string(seed));
  TempFolder folder;
  struct Exchange {
    GenerateRequest request;
    std::shared_ptr<Reply> reply;
  };
  std::vector<std::vector<Exchange>> exchanges(kClients);
  const std::vector<TokenId> system = RandomTokens(seed, 80, 2000);
  for (int life = 0; life < 2; ++life) {
    auto engine = StartEngine({.model_path = FixturePath("tinyC-mtp-bf16.gguf"),
                               .ctx = 1024,
                               .n_threads = 2,
                               .n_slots = 3,
                               .step_target_ms = 2,
                               .min_free_bytes = 0,
                               .store_dir = folder.path() + "/store",
                               .autosave = life == 0 ? Autosave::kTurn : Autosave::kIdle});
    ASSERT_NE(engine, nullptr);
    const auto client = [&](int number) {
      std::mt19937_64 random(seed + 10 * number + life);
      std::vector<Exchange>& mine = exchanges[number];
      for (int i = 0; i < kRequests; ++i) {
        GenerateRequest request{.prompt = random() % 2 == 0 ? system : std::vector<TokenId>(),
                                .max_tokens = static_cast<int64_t>(1 + random() % 12),
                                .ignore_eos = true};
        if (!mine.empty() && random() % 3 != 0) {  // a further turn
          request.prompt = mine.back().request.prompt + mine.back().reply->tokens();
        }
        if (request.prompt.size() > 900) request.prompt.clear();
        request.prompt = request.prompt + RandomTokens(random(), 1 + random() % 60, 2000);
        request.sampling.temperature = random() % 2 == 0 ? 0.0f : 0.8f;
        request.sampling.seed = random();
        auto reply = std::make_shared<Reply>();
        if (random() % 5 == 0) {  // the client leaves
          reply->on_token = [n = 1 + random() % 4](const std::vector<TokenId>& tokens) {
            return tokens.size() >= n ? SinkAnswer::kStop : SinkAnswer::kContinue;
          };
        }
        const auto id = engine->Submit(request, reply);
        if (!id.ok()) {
          ADD_FAILURE() << id.status().ToString();
          return;
        }
        if (random() % 5 == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
          engine->Cancel(*id);
        }
        reply->Wait();
        mine.push_back({std::move(request), std::move(reply)});
      }
    };
    std::vector<std::thread> threads;
    for (int i = 0; i < kClients; ++i) threads.emplace_back(client, i);
    for (std::thread& thread : threads) thread.join();
  }

  auto model =
      ScriptModel::Load(FixturePath("tinyC-mtp-bf16.gguf"), {.n_threads = 2}, KvFormat::kInt8);
  ASSERT_TRUE(model.ok());
  Reference reference(model->model.get(), model->tokenizer.get(), nullptr);
  for (const auto& one : exchanges) {
    for (const Exchange& e : one) {
      const GenerateResult& result = e.reply->Wait();
      ASSERT_NE(result.reason, FinishReason::kError) << result.status.ToString();
      const std::vector<TokenId> tokens = e.reply->tokens();
      if (tokens.empty()) continue;  // cancelled before its first
      const auto want = reference.Reply(e.request.prompt, e.request.sampling,
                                        static_cast<int64_t>(tokens.size()));
      ASSERT_TRUE(want.ok());
      EXPECT_EQ(tokens, *want);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PropertyTest,
    ::testing::Values(Kind{"tinyC", "tinyC-mtp-bf16.gguf", KvFormat::kInt8, 1, 210},
                      Kind{"tinyC_f16_2_threads", "tinyC-mtp-bf16.gguf", KvFormat::kF16, 2, 210},
                      Kind{"tinyA_mix", "tinyA-mix.gguf", KvFormat::kInt8, 1, 40},
                      Kind{"tinyA_mix_f32_2_threads", "tinyA-mix.gguf", KvFormat::kF32, 2, 40}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace holdfast
