#include "engine/repack_plan.h"

#include <fmt/format.h>

namespace holdfast {

Result<RepackMode> ParseRepackMode(std::string_view text) {
  if (text == "auto") return RepackMode::kAuto;
  if (text == "on") return RepackMode::kOn;
  if (text == "off") return RepackMode::kOff;
  return InvalidArgumentError(fmt::format("'{}', wanted auto, on or off", text));
}

bool ShouldRepack(RepackMode mode, const Model::RepackSizes& sizes, uint64_t left) {
  if (mode == RepackMode::kOff || sizes.copy_bytes == 0) return false;
  // While copies are made the file's pages are still there, but the kernel can take them back.
  const uint64_t more =
      sizes.copy_bytes > sizes.file_bytes ? sizes.copy_bytes - sizes.file_bytes : 0;
  return more <= (mode == RepackMode::kOn ? left : left / 4);
}

}  // namespace holdfast
