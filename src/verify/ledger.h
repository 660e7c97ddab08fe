#ifndef HOLDFAST_VERIFY_LEDGER_H_
#define HOLDFAST_VERIFY_LEDGER_H_

// What every computed thing must be, by the tokens it is a function of (docs/exactness.md): the
// first time something is seen it is written down, every further time it is compared.
//
// The key is a hash of the tokens up to and with the thing's own position, so two cases meet in it
// whenever their conversations have a beginning in common, whatever else differs between them.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash128.h"
#include "state/layout.h"

namespace holdfast {

// Hash of a run of tokens from position 0, token by token.
inline constexpr uint64_t kEmptyPrefix = 0x9e3779b97f4a7c15;
uint64_t ExtendPrefix(uint64_t prefix, int32_t token);
uint64_t HashPrefix(std::span<const int32_t> tokens, uint64_t prefix = kEmptyPrefix);

enum class SubjectKind : uint8_t {
  kLogits,   // of the last token's row
  kCells,    // one item of a part of a page, that ends with the last token
  kRunning,  // a part of the running state behind the last token
};

struct Subject {
  SubjectKind kind = SubjectKind::kLogits;
  StateSection section = StateSection::kTrunk;
  int part = 0;  // in the layout's list
  friend bool operator==(const Subject&, const Subject&) = default;
};

struct Fact {
  Subject subject;
  uint64_t prefix = 0;
  int64_t position = 0;  // of the last token
  Hash128 value;
};

struct Difference {
  std::string case_name;
  int conversation = -1;  // of the reference, -1: not one of its own
  int64_t position = -1;  // of the first row or cell that differs
  int layer = -1;         // the lowest that differs, -1: none of the layers' states does
  std::string part;       // of that layer, or "logits", "token"
  std::string detail;
  std::string Describe() const;
};

class Ledger {
 public:
  // Both outlive the ledger; `draft` may be null.
  Ledger(const StateLayout* trunk, const StateLayout* draft) : trunk_(trunk), draft_(draft) {}

  // What follows is of this case.
  void BeginCase(std::string name);
  // What is written down from here on is of this conversation, for messages.
  void SetConversation(int number) { conversation_ = number; }
  void Add(const Fact& fact);
  bool Knows(const Subject& subject, uint64_t prefix) const;
  // Hears of every fact.
  void set_listener(std::function<void(const Fact&)> listener) { listener_ = std::move(listener); }

  struct Counts {
    int64_t n_rows = 0;   // rows of logits that were compared
    int64_t n_parts = 0;  // items of states that were compared
    int64_t n_new = 0;    // seen for the first time
  };
  const Counts& counts() const { return counts_; }  // of this case
  void set_counts(const Counts& counts) { counts_ = counts; }
  // The first difference of this case, told by the first position and the lowest layer.
  std::optional<Difference> difference() const;

 private:
  struct Key {
    Subject subject;
    uint64_t prefix;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& key) const;
  };
  struct Entry {
    Hash128 value;
    int conversation;
  };
  struct Found {
    Fact fact;
    int conversation;
  };
  const Part& PartOf(const Subject& subject) const;

  const StateLayout* trunk_;
  const StateLayout* draft_;
  std::string case_name_;
  int conversation_ = -1;
  std::unordered_map<Key, Entry, KeyHash> entries_;
  std::function<void(const Fact&)> listener_;
  Counts counts_;
  std::vector<Found> differences_;  // of this case
};

}  // namespace holdfast

#endif  // HOLDFAST_VERIFY_LEDGER_H_
