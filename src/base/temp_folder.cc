#include "base/temp_folder.h"

#include <stdlib.h>
#ifdef __linux__
#include <sys/vfs.h>
#endif

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace holdfast {

Result<TempFolder> TempFolder::Create(const std::string& what, const std::string& parent) {
  std::filesystem::path root = parent;
  if (parent.empty()) {
    std::error_code error;
    root = std::filesystem::temp_directory_path(error);
    if (error) return NotFoundError("there is no folder for temporary files (TMPDIR)");
  }
  std::string path = (root / ("holdfast_" + what + "_XXXXXX")).string();
  if (::mkdtemp(path.data()) == nullptr) return ErrnoError(errno, path);
  return TempFolder(std::move(path));
}

TempFolder::TempFolder(TempFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempFolder::~TempFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

bool TempFolder::in_memory() const {
#ifdef __linux__
  constexpr long kTmpfsMagic = 0x01021994, kRamfsMagic = 0x858458f6;  // linux/magic.h
  struct statfs fs;
  if (::statfs(path_.c_str(), &fs) != 0) return false;
  return fs.f_type == kTmpfsMagic || fs.f_type == kRamfsMagic;
#else
  return false;
#endif
}

}  // namespace holdfast
