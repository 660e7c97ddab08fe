#ifndef HOLDFAST_STORE_STORE_TESTING_H_
#define HOLDFAST_STORE_STORE_TESTING_H_

// Tiny conversations for tests: every cell and state is a function of the tokens before it, as in
// the engine, so what a load returns can be checked without remembering what was saved.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/faulty_file_system.h"
#include "store/store.h"

namespace holdfast::testing {

inline constexpr int kPageTokens = 4;
inline constexpr size_t kCellBytes = 16;
inline constexpr size_t kRunningBytes = 40;

inline Hash128 NamedHash(std::string_view name) {
  return Hash128Of(std::as_bytes(std::span(name)));
}

inline StoreKeys TestKeys(bool with_draft = true) {
  StoreKeys keys;
  keys.model.name = "tiny";
  keys.model.config = NamedHash("config");
  keys.model.vocabulary = NamedHash("vocabulary");
  keys.model.provisional = NamedHash("provisional");
  keys.trunk_layout_key = 0x1111;
  keys.kv_format = "int8";
  keys.numerics_key = "1 auto";
  keys.page_tokens = kPageTokens;
  keys.page_bytes = kPageTokens * kCellBytes;
  keys.running_bytes = kRunningBytes;
  if (with_draft) {
    keys.model.draft = NamedHash("draft");
    keys.draft_layout_key = 0x2222;
    keys.draft_page_bytes = kPageTokens * kCellBytes;
    keys.draft_running_bytes = kRunningBytes;
  }
  keys.vocab_size = 1000;
  keys.max_tokens = 200;
  return keys;
}

// Options whose time and file names are the same in every run.
inline StoreOptions TestOptions(FileSystem* fs, const std::string& dir = "/store") {
  StoreOptions options;
  options.dir = dir;
  options.file_system = fs;
  options.n_read_threads = 1;
  auto clock = std::make_shared<int64_t>(1'700'000'000'000);
  options.now_ms = [clock] { return ++*clock; };
  auto state = std::make_shared<uint64_t>(0x9e3779b97f4a7c15);
  options.random = [state] {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
  };
  return options;
}

inline std::vector<int32_t> Tokens(int n, int seed = 0) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < n; ++i) tokens.push_back((i * 37 + seed * 101 + 5) % 1000);
  return tokens;
}

// `n_bytes` that depend on the first `n` tokens and `salt` only.
inline std::vector<std::byte> BytesAfter(const std::vector<int32_t>& tokens, int64_t n, int salt,
                                         size_t n_bytes) {
  Hash128Stream stream;
  stream.Add(std::as_bytes(std::span(tokens.data(), static_cast<size_t>(n))));
  stream.Add(static_cast<uint64_t>(salt));
  Hash128 hash = stream.Value();
  std::vector<std::byte> bytes(n_bytes);
  for (size_t i = 0; i < n_bytes; i += 16) {
    std::memcpy(bytes.data() + i, &hash, std::min<size_t>(16, n_bytes - i));
    hash.low = hash.low * 0x9e3779b97f4a7c15 + 1;
  }
  return bytes;
}

inline std::vector<std::byte> PageBytes(const std::vector<int32_t>& tokens, int64_t n_live,
                                        int64_t page, bool draft) {
  std::vector<std::byte> bytes(kPageTokens * kCellBytes);
  for (int64_t i = 0; i < kPageTokens; ++i) {
    const int64_t position = page * kPageTokens + i;
    if (position >= n_live) break;
    const auto cell = BytesAfter(tokens, position + 1, draft ? 2 : 1, kCellBytes);
    std::copy(cell.begin(), cell.end(), bytes.begin() + i * static_cast<int64_t>(kCellBytes));
  }
  return bytes;
}

inline std::vector<std::byte> RunningBytes(const std::vector<int32_t>& tokens, int64_t position,
                                           bool draft) {
  return BytesAfter(tokens, position, draft ? 4 : 3, kRunningBytes);
}

inline StateProof ProofAt(const std::vector<int32_t>& tokens, int64_t position) {
  const auto row = BytesAfter(tokens, position, 5, 16);
  return {tokens[static_cast<size_t>(position)], Hash128Of(row)};
}

// A save of `tokens` up to `n_live` with states at `positions` (the last one is the live end).
// `tokens` must outlive the request.
inline SaveRequest Request(const std::string& id, const std::vector<int32_t>& tokens,
                           int64_t n_live, const std::vector<int64_t>& positions,
                           bool draft = true) {
  SaveRequest request;
  request.conversation = id;
  request.tokens = tokens;
  request.n_live = n_live;
  request.has_draft = draft;
  for (const int64_t position : positions) {
    SaveState state;
    state.position = position;
    state.kind = position == n_live ? StateKind::kLiveEnd : StateKind::kTurnEnd;
    state.has_draft = draft;
    if (position < static_cast<int64_t>(tokens.size())) state.proof = ProofAt(tokens, position);
    request.states.push_back(state);
  }
  request.source = [&tokens, n_live](const PartRef& ref, const auto& use) {
    const bool of_draft = ref.section == StateSection::kDraft;
    return use(ref.running ? RunningBytes(tokens, ref.index, of_draft)
                           : PageBytes(tokens, n_live, ref.index, of_draft));
  };
  return request;
}

// Buffers of a load.
struct Loaded {
  std::map<std::tuple<bool, bool, int64_t>, std::vector<std::byte>> parts;  // draft, running, index

  PartSink Sink(const StoreKeys& keys) {
    return [this, keys](std::span<const PartRef> refs, const auto& fill) {
      std::vector<std::span<std::byte>> buffers;
      for (const PartRef& ref : refs) {
        const bool draft = ref.section == StateSection::kDraft;
        auto& bytes = parts[{draft, ref.running, ref.index}];
        bytes.assign(ref.running ? (draft ? keys.draft_running_bytes : keys.running_bytes)
                                 : (draft ? keys.draft_page_bytes : keys.page_bytes),
                     std::byte{0xee});
        buffers.push_back(bytes);
      }
      return fill(buffers);
    };
  }
};

// Loads `prefix` of `tokens` and compares every cell before its position, and the running state.
inline void ExpectLoads(Store* store, const StoreKeys& keys, const StoredPrefix& prefix,
                        const std::vector<int32_t>& tokens) {
  Loaded loaded;
  const auto report = store->Load(prefix, {loaded.Sink(keys)});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  for (const auto& [key, bytes] : loaded.parts) {
    const auto& [draft, running, index] = key;
    if (running) {
      EXPECT_EQ(bytes, RunningBytes(tokens, prefix.position, draft));
      continue;
    }
    const int64_t n_cells = std::min<int64_t>(kPageTokens, prefix.position - index * kPageTokens);
    const auto wanted = PageBytes(tokens, prefix.position, index, draft);
    EXPECT_TRUE(std::equal(
        bytes.begin(), bytes.begin() + n_cells * static_cast<int64_t>(kCellBytes), wanted.begin()))
        << "page " << index;
  }
  const size_t n_pages = static_cast<size_t>((prefix.position + kPageTokens - 1) / kPageTokens);
  EXPECT_EQ(loaded.parts.size(), (n_pages + 1) * (report->draft_loaded ? 2 : 1));
}

// The deepest stored position of `tokens`, loaded and compared; 0 when there is none.
inline int64_t StoredPosition(Store* store, const StoreKeys& keys,
                              const std::vector<int32_t>& tokens) {
  const auto found = store->Find(tokens);
  EXPECT_TRUE(found.ok()) << found.status().ToString();
  if (!found.ok() || !found->prefix) return 0;
  ExpectLoads(store, keys, *found->prefix, tokens);
  return found->prefix->position;
}

}  // namespace holdfast::testing

#endif  // HOLDFAST_STORE_STORE_TESTING_H_
