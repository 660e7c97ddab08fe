#include "store/store.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "store/store_core.h"

namespace holdfast {
namespace {

constexpr int64_t kHourMs = 3'600'000;
constexpr size_t kMaxCacheValueBytes = 1 << 20;

int64_t SystemNowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

uint64_t SystemRandom() {
  uint64_t value = 0;
  if (::getrandom(&value, sizeof(value), 0) == static_cast<ssize_t>(sizeof(value))) return value;
  return std::random_device{}() * uint64_t{0x100000001} ^ static_cast<uint64_t>(SystemNowMs());
}

class StoreImpl final : public Store {
 public:
  StoreImpl(const StoreOptions& options, const std::optional<StoreKeys>& keys) {
    core_.options = options;
    if (!core_.options.now_ms) core_.options.now_ms = SystemNowMs;
    if (!core_.options.random) core_.options.random = SystemRandom;
    core_.keys = keys;
    core_.file_system = options.file_system;
    core_.segments_dir = options.dir + "/segments";
    core_.quarantine_dir = options.dir + "/quarantine";
    core_.exports_dir = options.dir + "/exports";
    core_.incoming_dir = options.dir + "/incoming";
  }

  Status Init() {
    FileSystem* fs = core_.file_system;
    const std::string& dir = core_.options.dir;
    HF_RETURN_IF_ERROR(MakeDirs(fs, dir));
    HF_RETURN_IF_ERROR(fs->MakePrivate(dir));
    HF_ASSIGN_OR_RETURN(core_.lock, fs->Lock(dir + "/lock"));
    HF_RETURN_IF_ERROR(MakeDirs(fs, core_.segments_dir));
    const std::string path = dir + "/catalogue.sqlite";
    auto db = OpenCatalogue(fs, path);
    if (db.status().code() == StatusCode::kDataLoss) {
      HF_RETURN_IF_ERROR(PutAside(db.status()));
      db = OpenCatalogue(fs, path);
    }
    HF_RETURN_IF_ERROR(db.status());
    core_.db = std::move(*db);
    HF_RETURN_IF_ERROR(LoadStoreId());
    if (core_.keys) {
      HF_ASSIGN_OR_RETURN(core_.spaces, FindSpaces(core_.db.get(), *core_.keys));
    }
    HF_RETURN_IF_ERROR(EmptyIncoming());
    GcReport report;
    HF_RETURN_IF_ERROR(RemoveOrphans(&core_, &report));
    if (report.orphans_removed > 0) {
      notices_.push_back(
          fmt::format("store {}: removed {} unfinished segments", dir, report.orphans_removed));
    }
    if (report.orphans_kept > 0) {
      notices_.push_back(fmt::format("store {}: moved {} unknown files to {}", dir,
                                     report.orphans_kept, core_.quarantine_dir));
    }
    return OkStatus();
  }

  const std::vector<std::string>& notices() const override { return notices_; }

  Status UseKeys(const StoreKeys& keys) override {
    HF_RETURN_IF_ERROR(keys.Validate());
    std::lock_guard lock(core_.db_mutex);
    if (core_.keys) return FailedPreconditionError("store: it has its keys already");
    HF_ASSIGN_OR_RETURN(core_.spaces, FindSpaces(core_.db.get(), keys));
    core_.keys = keys;
    return OkStatus();
  }

  Result<SaveReceipt> Save(const SaveRequest& request) override {
    return SaveConversation(&core_, request);
  }
  Result<FindResult> Find(std::span<const int32_t> tokens,
                          std::span<const uint64_t> content_hashes) override {
    if (!content_hashes.empty() && content_hashes.size() != tokens.size()) {
      return InvalidArgumentError(fmt::format("find: {} content hashes for {} tokens",
                                              content_hashes.size(), tokens.size()));
    }
    return FindPrefix(&core_, {tokens, content_hashes});
  }
  Result<StoredPrefix> FindIn(std::string_view conversation, int64_t at_most) override {
    return FindInConversation(&core_, conversation, at_most);
  }
  Result<LoadReport> Load(const StoredPrefix& prefix, const LoadOptions& options) override {
    return LoadPrefix(&core_, prefix, options);
  }
  Status Quarantine(const StoredPrefix& prefix, const std::string& reason) override {
    return QuarantineState(&core_, prefix, reason);
  }
  Status Touch(std::string_view conversation) override {
    return Update("UPDATE conversation SET used = ? WHERE id = ?", core_.options.now_ms(),
                  conversation);
  }
  Result<std::vector<FoundMessage>> FindMessages(const Hash128& hash) override {
    return FindStoredMessages(&core_, &hash, "");
  }
  Result<std::vector<FoundMessage>> FindToolCall(std::string_view tool_call_id) override {
    return FindStoredMessages(&core_, nullptr, tool_call_id);
  }
  Result<ConversationTokens> Tokens(std::string_view conversation) override {
    return TokensOfConversation(&core_, conversation);
  }
  Result<int64_t> SetFullIdentity(const Hash128& full) override {
    return SetFullModelIdentity(&core_, full);
  }
  double SecondsUntilAllowed(uint64_t bytes) override;

  Result<std::vector<ConversationInfo>> List() override { return ListConversations(&core_); }
  Result<ConversationDetail> Show(std::string_view conversation) override {
    return ShowConversation(&core_, conversation);
  }
  Status Remove(std::string_view conversation) override {
    return RemoveConversation(&core_, conversation);
  }
  Status Pin(std::string_view conversation, bool pinned) override {
    return Update("UPDATE conversation SET pinned = ? WHERE id = ?", pinned, conversation);
  }
  Status SetTitle(std::string_view conversation, std::string_view title) override {
    return Update("UPDATE conversation SET title = ? WHERE id = ?", title, conversation);
  }
  Status SetTags(std::string_view conversation, const std::vector<std::string>& tags) override {
    return Update("UPDATE conversation SET tags = ? WHERE id = ?", TagsToText(tags), conversation);
  }
  Status Fork(std::string_view conversation, std::string_view new_id, int64_t position) override {
    return ForkConversation(&core_, conversation, new_id, position);
  }
  Result<DiskUsage> Du() override { return MeasureStore(&core_); }
  Result<GcReport> Gc() override { return CollectGarbage(&core_); }
  Result<VerifyReport> Verify() override { return VerifyStore(&core_); }
  Status Export(std::string_view conversation, const std::string& path) override {
    return ExportConversation(&core_, conversation, path);
  }
  Status ExportTo(std::string_view conversation, const ByteSink& sink) override {
    return ExportConversation(&core_, conversation, "", sink);
  }
  Result<ImportReport> Import(const std::string& path, const ImportOptions& options) override {
    return ImportSession(&core_, path, options);
  }
  Result<std::string> SessionId(const std::string& path, const std::string& name) override {
    HF_ASSIGN_OR_RETURN(SessionHead head, ReadSessionHead(&core_, path, name));
    return std::move(head.conversation);
  }
  Result<std::unique_ptr<SessionUpload>> BeginUpload() override {
    return SessionUpload::Begin(&core_);
  }
  Result<std::string> ExportPath(std::string_view name) override {
    HF_RETURN_IF_ERROR(CheckPlainFileName(name));
    HF_RETURN_IF_ERROR(core_.CheckPresent());
    HF_RETURN_IF_ERROR(MakeDirs(core_.file_system, core_.exports_dir));
    return fmt::format("{}/{}", core_.exports_dir, name);
  }

  Result<std::optional<std::string>> CacheGet(std::string_view key) override {
    std::lock_guard lock(core_.db_mutex);
    std::optional<std::string> value;
    Query query(core_.db.get(), "SELECT value FROM cache WHERE key = ?", key);
    if (query.Next()) value = query.Text(0);
    HF_RETURN_IF_ERROR(query.status());
    return value;
  }
  Status CachePut(std::string_view key, std::string_view value) override {
    if (value.size() > kMaxCacheValueBytes) {
      return InvalidArgumentError(fmt::format("cache value of {} bytes, wanted at most {}",
                                              value.size(), kMaxCacheValueBytes));
    }
    std::lock_guard lock(core_.db_mutex);
    return core_.Change([&]() -> Status {
      return RunSql(core_.db.get(),
                    "INSERT INTO cache(key, value) VALUES(?, ?) "
                    "ON CONFLICT(key) DO UPDATE SET value = excluded.value",
                    key, value);
    });
  }

 private:
  // One conversation's row; kNotFound when there is none.
  template <typename Value>
  Status Update(const char* sql, const Value& value, std::string_view conversation) {
    std::lock_guard lock(core_.db_mutex);
    return core_.Change([&]() -> Status {
      HF_RETURN_IF_ERROR(RunSql(core_.db.get(), sql, value, conversation));
      if (core_.db->n_changes() == 1) return OkStatus();
      return NotFoundError(fmt::format("conversation {} is not in the store", conversation));
    });
  }

  // A catalogue that cannot be read, with the segments only it could explain, waits in quarantine
  // for a person; the store begins anew.
  Status PutAside(const Status& damage) {
    FileSystem* fs = core_.file_system;
    HF_RETURN_IF_ERROR(MakeDirs(fs, core_.quarantine_dir));
    const std::string aside =
        fmt::format("{}/damaged-{:016x}", core_.quarantine_dir, core_.options.random());
    HF_RETURN_IF_ERROR(MakeDirs(fs, aside));
    // The segments first: interrupted here, the next start finds the damaged catalogue again.
    HF_RETURN_IF_ERROR(fs->Rename(core_.segments_dir, aside + "/segments"));
    HF_RETURN_IF_ERROR(MakeDirs(fs, core_.segments_dir));
    for (const char* suffix : {"-wal", "-journal", ""}) {
      const std::string name = std::string("catalogue.sqlite") + suffix;
      HF_ASSIGN_OR_RETURN(const bool there, fs->Exists(core_.options.dir + "/" + name));
      if (!there) continue;
      HF_RETURN_IF_ERROR(fs->Rename(core_.options.dir + "/" + name, aside + "/" + name));
    }
    HF_RETURN_IF_ERROR(fs->SyncDir(core_.options.dir));
    HF_RETURN_IF_ERROR(fs->SyncDir(aside));
    notices_.push_back(
        fmt::format("store {}: the catalogue is damaged ({}); it and its segments "
                    "were moved to {}",
                    core_.options.dir, damage.message(), aside));
    return OkStatus();
  }

  // What a process that ended had not finished receiving.
  Status EmptyIncoming() {
    HF_ASSIGN_OR_RETURN(const bool there, core_.file_system->Exists(core_.incoming_dir));
    if (!there) return OkStatus();
    HF_ASSIGN_OR_RETURN(const auto names, core_.file_system->List(core_.incoming_dir));
    for (const std::string& name : names) {
      HF_RETURN_IF_ERROR(core_.file_system->Unlink(core_.incoming_dir + "/" + name));
    }
    return OkStatus();
  }

  Status LoadStoreId() {
    Database* db = core_.db.get();
    HF_ASSIGN_OR_RETURN(int64_t id, MetaInt(db, "store_id"));
    if (id == 0) {
      id = static_cast<int64_t>(core_.options.random() | 1);
      HF_RETURN_IF_ERROR(core_.Change([&] { return SetMetaInt(db, "store_id", id); }));
    }
    core_.store_id = static_cast<uint64_t>(id);
    return OkStatus();
  }

  StoreCore core_;
  std::vector<std::string> notices_;
};

double StoreImpl::SecondsUntilAllowed(uint64_t bytes) {
  const uint64_t limit = core_.options.write_limit_bytes_per_hour;
  if (limit == 0) return 0.0;
  const int64_t now = core_.options.now_ms();
  std::lock_guard lock(core_.writes_mutex);
  auto& writes = core_.writes;
  while (!writes.empty() && writes.front().first <= now - kHourMs) writes.pop_front();
  uint64_t sum = bytes;
  for (const auto& write : writes) sum += write.second;
  if (sum <= limit) return 0.0;
  // A single save above the limit is allowed once nothing else was written for an hour.
  for (const auto& write : writes) {
    sum -= write.second;
    if (sum <= limit || &write == &writes.back()) {
      return static_cast<double>(write.first + kHourMs - now) / 1000.0;
    }
  }
  return 0.0;
}

}  // namespace

Result<std::unique_ptr<Store>> Store::Open(const StoreOptions& options,
                                           const std::optional<StoreKeys>& keys) {
  if (options.dir.empty()) {
    return InvalidArgumentError("store: no directory; give --store DIR, or off");
  }
  if (keys) HF_RETURN_IF_ERROR(keys->Validate());
  auto store = std::make_unique<StoreImpl>(options, keys);
  HF_RETURN_IF_ERROR(store->Init());
  return std::unique_ptr<Store>(std::move(store));
}

std::string DefaultStoreDir(std::string_view xdg_state_home, std::string_view home) {
  // The XDG rules: a relative path there is to be ignored.
  if (xdg_state_home.starts_with('/')) return fmt::format("{}/holdfast/store", xdg_state_home);
  if (home.empty()) return "";
  return fmt::format("{}/.local/state/holdfast/store", home);
}

Status CheckPlainFileName(std::string_view name) {
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (plain && !name.empty() && name.size() <= 255 && name[0] != '.') return OkStatus();
  return InvalidArgumentError(
      fmt::format("file name of {} bytes, wanted 1 to 255 of A-Z a-z 0-9 . "
                  "_ - and no dot at the beginning: names, not paths",
                  name.size()));
}

}  // namespace holdfast
