#ifndef HOLDFAST_VERIFY_RIG_H_
#define HOLDFAST_VERIFY_RIG_H_

#include <memory>
#include <string>

#include "base/status.h"
#include "model/model.h"
#include "token/tokenizer.h"
#include "verify/ledger.h"
#include "verify/state_check.h"
#include "verify/verify.h"

namespace holdfast {

// A loaded model whose rows and states go into a ledger.
class Rig {
 public:
  static Result<std::unique_ptr<Rig>> Create(const VerifyOptions& options,
                                             const CpuBackendOptions& cpu);
  // As the options say; before the first step.
  Status StreamWeights(const VerifyOptions& options);
  // From here on every row that is computed goes into `ledger`, which must outlive the rig.
  void Attach(Ledger* ledger);

  Model& model() { return *model_; }
  Backend& backend() { return *backend_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  StateCheck& check() { return *check_; }

 private:
  Rig() = default;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<StateCheck> check_;
};

// A file's vocabulary, or ids that stand for themselves.
Result<std::unique_ptr<Tokenizer>> TokenizerOf(const Model& model);

}  // namespace holdfast

#endif  // HOLDFAST_VERIFY_RIG_H_
