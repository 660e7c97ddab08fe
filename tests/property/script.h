#ifndef HOLDFAST_TESTS_PROPERTY_SCRIPT_H_
#define HOLDFAST_TESTS_PROPERTY_SCRIPT_H_

// A random story of clients and an engine: requests come, are cancelled, lose their client, follow
// each other, change their past, are copied; the process ends, orderly or not, and begins again.
// Whatever happens, each reply must be what the conversation alone gives, and every part of the
// state that is kept must be what reading it alone leaves.

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "ops/cpu/cpu_backend.h"
#include "verify/reference.h"
#include "verify/stage.h"

namespace holdfast {

// A model that scripts share, loaded with small pages and steps so that small conversations cross
// many borders.
struct ScriptModel {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::unique_ptr<Tokenizer> tokenizer;

  static Result<ScriptModel> Load(const std::string& path, const CpuBackendOptions& cpu,
                                  KvFormat kv_format);
};

// Everything random follows from the seed.
class Script {
 public:
  // `folder`: for the store, empty and private.
  Script(ScriptModel* model, uint64_t seed, std::string folder);

  // What went wrong, or empty.
  std::string Run();
  // The story so far, a line for each event.
  const std::string& log() const { return log_; }
  int64_t n_requests() const { return n_requests_; }
  int64_t n_reused() const { return n_reused_; }

 private:
  // What a client knows: it sends back what it has seen, or something else.
  struct Dialogue {
    std::vector<TokenId> tokens;
    AskedPtr last;  // running or done
    std::string conversation;
  };

  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }
  int64_t Number(int64_t from, int64_t to) {
    return std::uniform_int_distribution<int64_t>(from, to)(random_);
  }
  std::vector<TokenId> Words(int64_t n);
  void Say(const std::string& line);

  Status Begin();
  Status Restart();
  Status Event();
  Status Steps(int64_t n);
  void Submit(Dialogue* dialogue);
  void TakeReply(Dialogue* dialogue);
  Status Fork();
  Status CheckSaves();
  Status CheckStates();
  Status CheckReplies();

  ScriptModel* const model_;
  std::mt19937_64 random_;
  const std::string folder_;
  Ledger ledger_;
  StateCheck check_;
  StageOptions options_;
  std::unique_ptr<Stage> stage_;
  std::vector<std::vector<TokenId>> systems_;  // beginnings that dialogues share
  std::vector<Dialogue> dialogues_;
  std::vector<AskedPtr> asked_;
  int n_forks_ = 0;
  int64_t n_requests_ = 0, n_reused_ = 0;
  std::string log_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_PROPERTY_SCRIPT_H_
