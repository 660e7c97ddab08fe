#include "grammar/grammar_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace holdfast {
namespace {

// The computing threads need the processor too.
constexpr auto kPrepareTime = std::chrono::milliseconds(300);

}  // namespace

std::shared_ptr<const TokenTrie> GrammarCache::Trie() {
  const std::lock_guard lock(mutex_);
  if (trie_ == nullptr) trie_ = std::make_shared<const TokenTrie>(tokenizer_);
  return trie_;
}

Result<std::shared_ptr<TokenGrammar>> GrammarCache::Get(const ReplyFormat& format,
                                                        std::string* where) {
  std::string key = format.Key();
  if (key.size() > kMaxFormatBytes) {
    *where = format.text == ReplyFormat::Text::kJson ? format.schema_where : "tools";
    return OutOfRangeError(fmt::format("{}: the schemas have {} bytes, at most {} are compiled",
                                       *where, key.size(), kMaxFormatBytes));
  }
  {
    const std::lock_guard lock(mutex_);
    const auto known = std::ranges::find(entries_, key, &Entry::key);
    if (known != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, known);
      Trim();  // they grow while they are used
      return entries_.front().grammar;
    }
  }
  HF_ASSIGN_OR_RETURN(Grammar grammar, CompileFormat(format, where));
  auto compiled = std::make_shared<TokenGrammar>(std::move(grammar), Trie());
  const std::lock_guard lock(mutex_);
  entries_.push_front({std::move(key), compiled});
  PrepareLater(compiled);
  Trim();
  return compiled;
}

GrammarCache::~GrammarCache() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (preparing_.joinable()) preparing_.join();
}

void GrammarCache::PrepareLater(const std::shared_ptr<TokenGrammar>& grammar) {
  to_prepare_.push_back(grammar);
  if (!preparing_.joinable()) preparing_ = std::thread([this] { RunPreparing(); });
  wake_.notify_all();
}

void GrammarCache::RunPreparing() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || !to_prepare_.empty(); });
    if (stop_) return;
    const std::shared_ptr<TokenGrammar> grammar = to_prepare_.front().lock();
    to_prepare_.pop_front();
    if (grammar == nullptr) continue;
    lock.unlock();
    grammar->Prepare(kPrepareTime);
    lock.lock();
  }
}

int64_t GrammarCache::bytes() {
  const std::lock_guard lock(mutex_);
  int64_t bytes = 0;
  for (const Entry& entry : entries_) {
    bytes += entry.grammar->bytes() + static_cast<int64_t>(entry.key.size());
  }
  return bytes;
}

void GrammarCache::Trim() {
  int64_t bytes = 0;
  size_t n = 0;
  for (auto it = entries_.begin(); it != entries_.end(); ++it) {
    bytes += it->grammar->bytes() + static_cast<int64_t>(it->key.size());
    if (++n > 1 && (n > kMaxGrammars || bytes > kMaxBytes)) {
      entries_.erase(it, entries_.end());
      break;
    }
  }
}

}  // namespace holdfast
