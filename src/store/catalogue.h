#ifndef HOLDFAST_STORE_CATALOGUE_H_
#define HOLDFAST_STORE_CATALOGUE_H_

// The catalogue: which conversations there are, which pages and states they consist of, and where
// in which segment each lies. Its tables:
//
//   space         what states must agree on: model identity, trunk layout, numerics
//   draft_space   the same of draft parts
//   segment       immutable files; the id is the file's number
//   part          one payload in a segment, with its checksum
//   page          token ids with their parent page: the exact identity of a prefix
//   state         a running state at a position: parent page, tokens since, covering page
//   conversation  its last full page, the tokens since, and what people see
//   kept          which states a conversation keeps, and why
//   message, tool_call   messages as received, and their tokens
//   quarantine    parts that did not verify; GC leaves their segments alone
//   cache, meta
//
// Nothing in it is trusted: every size and id read is checked where it is used.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "store/file_system.h"
#include "store/sqlite.h"
#include "store/store_types.h"

namespace holdfast {

inline constexpr int kCatalogueVersion = 1;

// Opens or creates the catalogue. kUnimplemented when a newer holdfast wrote it, kDataLoss when it
// is damaged.
Result<std::unique_ptr<Database>> OpenCatalogue(FileSystem* file_system, const std::string& path);

// A number kept in `meta`, 0 when it is not there.
Result<int64_t> MetaInt(Database* db, std::string_view key);
Status SetMetaInt(Database* db, std::string_view key, int64_t value);

// The space and draft space that agree with `keys`; 0 when there is none yet.
struct SpaceIds {
  int64_t space = 0, draft_space = 0;
};
Result<SpaceIds> FindSpaces(Database* db, const StoreKeys& keys);
// The same, made when missing. Inside a transaction.
Result<SpaceIds> EnsureSpaces(Database* db, const StoreKeys& keys);
// The keys a space was made with; those of its draft space only when `draft_space` is not 0.
Result<StoreKeys> ReadSpaceKeys(Database* db, const SpaceIds& ids);

// Where a payload lies.
struct PartRow {
  int64_t segment = 0;
  uint64_t offset = 0, bytes = 0;
  Hash128 hash;
};
Result<PartRow> ReadPart(Database* db, int64_t id);
Result<int64_t> InsertPart(Database* db, const PartRow& part);

// Keeps a part that did not verify, and its segment, for a person to look at.
Status QuarantinePart(Database* db, int64_t part, std::string_view what, std::string_view reason,
                      int64_t now_ms);

// Deletes rows nothing needs any more: states no conversation keeps, pages out of reach, parts.
// Inside a transaction.
Status DropUnreachable(Database* db);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_CATALOGUE_H_
