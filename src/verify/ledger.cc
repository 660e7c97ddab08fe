#include "verify/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace holdfast {
namespace {

// The finaliser of MurmurHash3: every bit of the input reaches every bit of the output.
uint64_t Mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccd;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53;
  return x ^ (x >> 33);
}

// Differences beyond these say nothing new.
constexpr size_t kMaxDifferences = 100'000;

}  // namespace

uint64_t ExtendPrefix(uint64_t prefix, int32_t token) {
  return Mix(prefix * 3 + static_cast<uint32_t>(token) + 1);
}

uint64_t HashPrefix(std::span<const int32_t> tokens, uint64_t prefix) {
  for (const int32_t token : tokens) prefix = ExtendPrefix(prefix, token);
  return prefix;
}

std::string Difference::Describe() const {
  std::string text = fmt::format("case \"{}\"", case_name);
  if (conversation >= 0) text += fmt::format(", conversation {}", conversation);
  if (position >= 0) text += fmt::format(", position {}", position);
  if (layer >= 0) text += fmt::format(", layer {}", layer);
  if (!part.empty()) text += ", " + part;
  return detail.empty() ? text : text + ": " + detail;
}

size_t Ledger::KeyHash::operator()(const Key& key) const {
  const uint64_t subject = static_cast<uint64_t>(key.subject.kind) << 40 |
                           static_cast<uint64_t>(key.subject.section) << 32 |
                           static_cast<uint32_t>(key.subject.part);
  return Mix(key.prefix + Mix(subject));
}

void Ledger::BeginCase(std::string name) {
  case_name_ = std::move(name);
  conversation_ = -1;
  counts_ = {};
  differences_.clear();
}

bool Ledger::Knows(const Subject& subject, uint64_t prefix) const {
  return entries_.contains({subject, prefix});
}

void Ledger::Add(const Fact& fact) {
  if (listener_) listener_(fact);
  const auto [it, is_new] =
      entries_.try_emplace({fact.subject, fact.prefix}, Entry{fact.value, conversation_});
  if (is_new) {
    ++counts_.n_new;
    return;
  }
  ++(fact.subject.kind == SubjectKind::kLogits ? counts_.n_rows : counts_.n_parts);
  if (it->second.value == fact.value || differences_.size() >= kMaxDifferences) return;
  differences_.push_back({fact, it->second.conversation});
}

const Part& Ledger::PartOf(const Subject& subject) const {
  const StateLayout& layout = subject.section == StateSection::kTrunk ? *trunk_ : *draft_;
  const auto& parts =
      subject.kind == SubjectKind::kCells ? layout.cell_parts() : layout.running_parts();
  return parts[subject.part];
}

std::optional<Difference> Ledger::difference() const {
  if (differences_.empty()) return std::nullopt;
  // Rows and cells know where it began; a running state only that it has begun before its end. What
  // is computed from something wrong is wrong too, so the lowest layer is the one to look at.
  const auto order = [](const Found& f) {
    return std::pair(f.fact.subject.kind == SubjectKind::kRunning, f.fact.position);
  };
  const Found& first = *std::ranges::min_element(differences_, {}, order);
  const Found* lowest = nullptr;
  for (const Found& f : differences_) {
    if (f.fact.subject.kind == SubjectKind::kLogits) continue;
    if (lowest == nullptr || PartOf(f.fact.subject).layer < PartOf(lowest->fact.subject).layer) {
      lowest = &f;
    }
  }
  Difference difference{.case_name = case_name_,
                        .conversation = first.conversation,
                        .position = first.fact.position,
                        .part = "logits"};
  if (lowest != nullptr) {
    difference.layer = PartOf(lowest->fact.subject).layer;
    difference.part = PartKindName(PartOf(lowest->fact.subject).kind);
    difference.detail = "the state is not what the conversation alone has";
  } else {
    difference.detail = "the row is not what the conversation alone has";
  }
  return difference;
}

}  // namespace holdfast
