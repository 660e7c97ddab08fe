#ifndef HOLDFAST_BASE_TEMP_FOLDER_H_
#define HOLDFAST_BASE_TEMP_FOLDER_H_

#include <string>

#include "base/status.h"

namespace holdfast {

// A new folder, gone with everything in it at the end.
class TempFolder {
 public:
  // holdfast_<what>_<something new> in `parent`; empty: where temporary files go.
  static Result<TempFolder> Create(const std::string& what, const std::string& parent = "");
  TempFolder(TempFolder&& other) noexcept;
  ~TempFolder();
  const std::string& path() const { return path_; }
  // A file system without a disk.
  bool in_memory() const;

 private:
  explicit TempFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace holdfast

#endif  // HOLDFAST_BASE_TEMP_FOLDER_H_
