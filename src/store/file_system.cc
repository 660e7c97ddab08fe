#include "store/file_system.h"

#include <fmt/format.h>

namespace holdfast {

Status File::ReadExactly(uint64_t offset, std::span<std::byte> dst, const std::string& what) {
  HF_ASSIGN_OR_RETURN(const size_t n_read, ReadAt(offset, dst));
  if (n_read == dst.size()) return OkStatus();
  return DataLossError(fmt::format("{}: the file ends at byte {}, wanted {} bytes at {}", what,
                                   offset + n_read, dst.size(), offset));
}

std::string ParentPath(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Status MakeDirs(FileSystem* fs, const std::string& path) {
  HF_ASSIGN_OR_RETURN(const bool there, fs->Exists(path));
  if (there) return fs->MakeDir(path);  // which checks that it is a directory
  const std::string parent = ParentPath(path);
  if (parent != path && parent != ".") HF_RETURN_IF_ERROR(MakeDirs(fs, parent));
  HF_RETURN_IF_ERROR(fs->MakeDir(path));
  return fs->SyncDir(parent);
}

}  // namespace holdfast
