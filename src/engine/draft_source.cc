#include "engine/draft_source.h"

#include <fmt/format.h>

namespace holdfast {

Result<DraftSource> ParseDraftSource(std::string_view name) {
  if (name == "auto") return DraftSource::kAuto;
  if (name == "mtp") return DraftSource::kMtp;
  if (name == "lookup") return DraftSource::kLookup;
  return InvalidArgumentError(fmt::format("'{}', wanted auto, mtp or lookup", name));
}

}  // namespace holdfast
