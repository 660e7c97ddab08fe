#include "store/sqlite_vfs.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <new>

namespace holdfast {

struct SqliteVfs::Context {
  sqlite3_vfs vfs = {};
  std::string name;
  FileSystem* file_system = nullptr;
  std::mutex mutex;
  Status error;

  // Keeps the first error; returns `code`, or SQLITE_FULL for a full disk.
  int Fail(const Status& status, int code) {
    std::lock_guard lock(mutex);
    if (error.ok()) error = status;
    return status.code() == StatusCode::kResourceExhausted ? SQLITE_FULL : code;
  }

  static Context* Of(sqlite3_vfs* vfs) { return static_cast<Context*>(vfs->pAppData); }
};

namespace {

constexpr int kMaxPath = 4096;
constexpr int kSectorBytes = 4096;

}  // namespace

// What SQLite calls a file; it allocates the memory, we construct and destroy.
struct VfsFile {
  sqlite3_file base;
  SqliteVfs::Context* context;
  std::unique_ptr<File> file;
  std::string path;
  bool sync_dir;  // the name may be new: make it durable with the first sync
};

namespace {

VfsFile* Cast(sqlite3_file* file) { return reinterpret_cast<VfsFile*>(file); }

int Close(sqlite3_file* file) {
  Cast(file)->~VfsFile();
  return SQLITE_OK;
}

int Read(sqlite3_file* file, void* out, int n_bytes, sqlite3_int64 offset) {
  VfsFile* self = Cast(file);
  std::span<std::byte> dst(static_cast<std::byte*>(out), n_bytes);
  const Result<size_t> n_read = self->file->ReadAt(offset, dst);
  if (!n_read.ok()) return self->context->Fail(n_read.status(), SQLITE_IOERR_READ);
  if (*n_read == dst.size()) return SQLITE_OK;
  std::fill(dst.begin() + static_cast<ptrdiff_t>(*n_read), dst.end(), std::byte{0});
  return SQLITE_IOERR_SHORT_READ;
}

int Write(sqlite3_file* file, const void* data, int n_bytes, sqlite3_int64 offset) {
  VfsFile* self = Cast(file);
  const std::span<const std::byte> src(static_cast<const std::byte*>(data), n_bytes);
  const Status status = self->file->WriteAt(offset, src);
  return status.ok() ? SQLITE_OK : self->context->Fail(status, SQLITE_IOERR_WRITE);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  VfsFile* self = Cast(file);
  const Status status = self->file->Truncate(size);
  return status.ok() ? SQLITE_OK : self->context->Fail(status, SQLITE_IOERR_TRUNCATE);
}

int Sync(sqlite3_file* file, int /*flags*/) {
  VfsFile* self = Cast(file);
  Status status = self->file->Sync();
  if (!status.ok()) return self->context->Fail(status, SQLITE_IOERR_FSYNC);
  if (!self->sync_dir) return SQLITE_OK;
  status = self->context->file_system->SyncDir(ParentPath(self->path));
  if (!status.ok()) return self->context->Fail(status, SQLITE_IOERR_DIR_FSYNC);
  self->sync_dir = false;
  return SQLITE_OK;
}

int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  VfsFile* self = Cast(file);
  const Result<uint64_t> result = self->file->Size();
  if (!result.ok()) return self->context->Fail(result.status(), SQLITE_IOERR_FSTAT);
  *size = static_cast<sqlite3_int64>(*result);
  return SQLITE_OK;
}

int NoLock(sqlite3_file*, int) { return SQLITE_OK; }

int CheckReservedLock(sqlite3_file*, int* out) {
  *out = 0;
  return SQLITE_OK;
}

int FileControl(sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; }
int SectorSize(sqlite3_file*) { return kSectorBytes; }
int DeviceCharacteristics(sqlite3_file*) { return 0; }

constexpr sqlite3_io_methods kMethods = {
    1,
    Close,
    Read,
    Write,
    Truncate,
    Sync,
    FileSize,
    NoLock,
    NoLock,
    CheckReservedLock,
    FileControl,
    SectorSize,
    DeviceCharacteristics,
};

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* out, int flags, int* out_flags) {
  auto* context = SqliteVfs::Context::Of(vfs);
  out->pMethods = nullptr;
  if (name == nullptr) return SQLITE_CANTOPEN;  // temporary files are kept in memory
  OpenMode mode = OpenMode::kRead;
  if (flags & SQLITE_OPEN_READWRITE) mode = OpenMode::kReadWrite;
  if (flags & SQLITE_OPEN_CREATE) mode = OpenMode::kCreate;
  if (flags & SQLITE_OPEN_EXCLUSIVE) mode = OpenMode::kCreateNew;
  Result<std::unique_ptr<File>> file = context->file_system->Open(name, mode);
  if (!file.ok()) return context->Fail(file.status(), SQLITE_CANTOPEN);
  auto* self = new (out)
      VfsFile{{&kMethods}, context, std::move(*file), name, (flags & SQLITE_OPEN_CREATE) != 0};
  static_cast<void>(self);
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync_dir) {
  auto* context = SqliteVfs::Context::Of(vfs);
  Status status = context->file_system->Unlink(name);
  if (status.code() == StatusCode::kNotFound) return SQLITE_IOERR_DELETE_NOENT;
  if (!status.ok()) return context->Fail(status, SQLITE_IOERR_DELETE);
  if (sync_dir == 0) return SQLITE_OK;
  status = context->file_system->SyncDir(ParentPath(name));
  return status.ok() ? SQLITE_OK : context->Fail(status, SQLITE_IOERR_DIR_FSYNC);
}

int Access(sqlite3_vfs* vfs, const char* name, int /*flags*/, int* out) {
  auto* context = SqliteVfs::Context::Of(vfs);
  const Result<bool> there = context->file_system->Exists(name);
  if (!there.ok()) return context->Fail(there.status(), SQLITE_IOERR_ACCESS);
  *out = *there ? 1 : 0;
  return SQLITE_OK;
}

int FullPathname(sqlite3_vfs*, const char* name, int n_out, char* out) {
  const size_t n = std::strlen(name);
  if (n + 1 > static_cast<size_t>(n_out)) return SQLITE_CANTOPEN;
  std::memcpy(out, name, n + 1);
  return SQLITE_OK;
}

// Time and random numbers are the system's own.
sqlite3_vfs* System() { return sqlite3_vfs_find("unix"); }
int Randomness(sqlite3_vfs*, int n, char* out) { return System()->xRandomness(System(), n, out); }
int Sleep(sqlite3_vfs*, int microseconds) { return System()->xSleep(System(), microseconds); }
int CurrentTime(sqlite3_vfs*, double* out) { return System()->xCurrentTime(System(), out); }
int LastError(sqlite3_vfs*, int, char*) { return 0; }

}  // namespace

Result<std::unique_ptr<SqliteVfs>> SqliteVfs::Register(FileSystem* file_system) {
  static std::atomic<int> counter{0};
  auto context = std::make_unique<Context>();
  context->name = fmt::format("holdfast-{}", counter.fetch_add(1));
  context->file_system = file_system;
  sqlite3_vfs& vfs = context->vfs;
  vfs.iVersion = 1;
  vfs.szOsFile = sizeof(VfsFile);
  vfs.mxPathname = kMaxPath;
  vfs.zName = context->name.c_str();
  vfs.pAppData = context.get();
  vfs.xOpen = Open;
  vfs.xDelete = Delete;
  vfs.xAccess = Access;
  vfs.xFullPathname = FullPathname;
  vfs.xRandomness = Randomness;
  vfs.xSleep = Sleep;
  vfs.xCurrentTime = CurrentTime;
  vfs.xGetLastError = LastError;
  const int code = sqlite3_vfs_register(&vfs, /*makeDflt=*/0);
  if (code != SQLITE_OK) {
    return InternalError(fmt::format("sqlite3_vfs_register: {}", sqlite3_errstr(code)));
  }
  return std::unique_ptr<SqliteVfs>(new SqliteVfs(std::move(context)));
}

SqliteVfs::SqliteVfs(std::unique_ptr<Context> context) : context_(std::move(context)) {}
SqliteVfs::~SqliteVfs() { sqlite3_vfs_unregister(&context_->vfs); }
const std::string& SqliteVfs::name() const { return context_->name; }

Status SqliteVfs::TakeError() {
  std::lock_guard lock(context_->mutex);
  return std::exchange(context_->error, OkStatus());
}

}  // namespace holdfast
