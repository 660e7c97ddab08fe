#ifndef HOLDFAST_STORE_SESSION_MANIFEST_H_
#define HOLDFAST_STORE_SESSION_MANIFEST_H_

// The first part of a session file: what the session is, as JSON (docs/session_format.md).

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/store_types.h"

namespace holdfast {

// More than any real one: a million tokens of messages are a few MB.
inline constexpr uint64_t kMaxManifestBytes = 64 << 20;

struct SessionManifest {
  std::string conversation, title;
  std::vector<std::string> tags;
  int64_t created_ms = 0;
  StoreKeys keys;  // of the engine that made it; max_tokens is not kept
  int64_t n_tokens = 0, n_live = 0;
  bool has_content = false;  // a part of content hashes follows the tokens
  bool has_draft = false;    // draft pages follow the trunk pages
  std::vector<SaveState> states;
  std::vector<StoredMessage> messages;

  int64_t n_pages() const { return (n_live + keys.page_tokens - 1) / keys.page_tokens; }
};

// Equal manifests give equal bytes.
std::string SessionManifestToText(const SessionManifest& manifest);
// kDataLoss naming the field that is missing, of another type or out of range.
Result<SessionManifest> ParseSessionManifest(std::span<const std::byte> text);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_SESSION_MANIFEST_H_
