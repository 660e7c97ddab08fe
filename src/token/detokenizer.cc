#include "token/detokenizer.h"

#include <utility>

#include "token/tokenizer.h"
#include "token/utf8.h"

namespace holdfast {

std::string Detokenizer::Push(TokenId id) {
  pending_ += tokenizer_->TokenBytes(id, include_control_);
  return TakeCompleteUtf8(&pending_);
}

std::string Detokenizer::Flush() { return RepairUtf8(std::exchange(pending_, {})); }

}  // namespace holdfast
