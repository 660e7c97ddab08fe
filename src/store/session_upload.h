#ifndef HOLDFAST_STORE_SESSION_UPLOAD_H_
#define HOLDFAST_STORE_SESSION_UPLOAD_H_

// A session file that arrives in pieces, from somebody who may send anything.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.h"
#include "store/file_system.h"
#include "store/store_types.h"

namespace holdfast {

struct StoreCore;

// The pieces wait in a file of the store's directory, which is gone with this object; the store
// outlives it. One thread at a time.
class SessionUpload {
 public:
  static Result<std::unique_ptr<SessionUpload>> Begin(StoreCore* core);
  ~SessionUpload();
  SessionUpload(const SessionUpload&) = delete;
  SessionUpload& operator=(const SessionUpload&) = delete;

  // The next bytes of the file. Fails as soon as they show that it cannot be taken: with the errors
  // of Store::Import, kDataLoss for more bytes than its manifest says, kResourceExhausted when it
  // would not fit on the disk. Nothing may be written after an error.
  Status Write(std::span<const std::byte> bytes);
  uint64_t bytes() const { return n_bytes_; }
  // The id in the file; empty until its manifest has arrived.
  const std::string& conversation() const { return conversation_; }
  // After the last piece: checks the whole file, then stores it.
  Result<ImportReport> Import(ImportOptions options);

 private:
  SessionUpload(StoreCore* core, std::string path) : core_(core), path_(std::move(path)) {}
  Status CheckBeginning();

  StoreCore* const core_;
  const std::string path_;
  std::unique_ptr<File> file_;
  uint64_t n_bytes_ = 0;
  uint64_t next_check_ = 0;  // bytes that must be there for the next check of the beginning
  uint64_t file_bytes_ = 0;  // by the manifest; 0: not known yet
  std::string conversation_;
};

}  // namespace holdfast

#endif  // HOLDFAST_STORE_SESSION_UPLOAD_H_
