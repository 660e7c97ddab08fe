#include "engine/expert_profile_file.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cmath>
#include <utility>
#include <vector>

namespace holdfast {
namespace {

constexpr auto kInterval = std::chrono::minutes(1);

uint64_t UsesOf(const ExpertProfile& profile) {
  uint64_t n = 0;
  for (const auto& layer : profile.layers) n += layer.n_hits + layer.n_late + layer.n_misses;
  return n;
}

int64_t KnownExperts(const ExpertProfile& profile) {
  int64_t n = 0;
  for (const auto& layer : profile.layers) {
    for (const float worth : layer.worth) n += std::isinf(worth) ? 0 : 1;
  }
  return n;
}

}  // namespace

std::string ExpertProfilePath(const std::string& store_dir, const ModelIdentity& identity) {
  return fmt::format("{}/experts/{}.profile", store_dir, identity.provisional.Hex());
}

ExpertProfileKey ExpertProfileKeyOf(const ModelIdentity& identity, std::vector<int64_t> n_experts) {
  return {
      .trunk = identity.provisional, .draft = identity.draft, .n_experts = std::move(n_experts)};
}

Result<ExpertProfile> ReadExpertProfile(FileSystem* file_system, const std::string& path,
                                        const ExpertProfileKey& key) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, file_system->Open(path, OpenMode::kRead));
  HF_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  if (size != ExpertProfileBytes(key)) {
    return DataLossError(fmt::format("{}: {} bytes, the profile of this model has {}", path, size,
                                     ExpertProfileBytes(key)));
  }
  std::vector<std::byte> bytes(size);
  HF_RETURN_IF_ERROR(file->ReadExactly(0, bytes, path));
  return DecodeExpertProfile(bytes, key, path);
}

ExpertProfileFile::ExpertProfileFile(FileSystem* file_system, const std::string& store_dir,
                                     const ModelIdentity& identity, ExpertTier* tier)
    : file_system_(file_system),
      path_(ExpertProfilePath(store_dir, identity)),
      tier_(tier),
      key_(ExpertProfileKeyOf(identity, tier->n_experts())),
      last_(std::chrono::steady_clock::now()) {
  writer_.emplace("expert profile");
}

ExpertProfileFile::~ExpertProfileFile() {
  writer_.reset();
  Save();
}

std::string ExpertProfileFile::Load() {
  const auto profile = ReadExpertProfile(file_system_, path_, key_);
  if (profile.status().code() == StatusCode::kNotFound) return {};
  if (!profile.ok()) {
    return fmt::format("what was learned of experts is ignored: {}", profile.status().message());
  }
  tier_->Adopt(*profile);
  return fmt::format("experts: {} are known from earlier runs, the most used are read in first",
                     KnownExperts(*profile));
}

void ExpertProfileFile::Tick() {
  const auto now = std::chrono::steady_clock::now();
  if (now - last_ < kInterval) return;
  last_ = now;
  writer_->Post([this] { Save(); });
}

void ExpertProfileFile::Save() {
  const std::lock_guard lock(mutex_);
  const ExpertProfile profile = tier_->Learned();
  const uint64_t n_uses = UsesOf(profile);
  if (n_uses == n_uses_saved_) return;
  const Status status = Write(profile);
  if (status.ok()) {
    n_uses_saved_ = n_uses;
  } else if (!std::exchange(failed_, true)) {
    spdlog::warn("what was learned of experts cannot be saved: {}", status.message());
  }
}

Status ExpertProfileFile::Write(const ExpertProfile& profile) {
  const std::vector<std::byte> bytes = EncodeExpertProfile(profile, key_);
  const std::string dir = ParentPath(path_), temporary = path_ + ".tmp";
  HF_RETURN_IF_ERROR(MakeDirs(file_system_, dir));
  {
    HF_ASSIGN_OR_RETURN(const std::unique_ptr<File> file,
                        file_system_->Open(temporary, OpenMode::kCreate));
    HF_RETURN_IF_ERROR(file->Truncate(0));
    HF_RETURN_IF_ERROR(file->WriteAt(0, bytes));
    HF_RETURN_IF_ERROR(file->Sync());
  }
  HF_RETURN_IF_ERROR(file_system_->Rename(temporary, path_));
  return file_system_->SyncDir(dir);
}

}  // namespace holdfast
