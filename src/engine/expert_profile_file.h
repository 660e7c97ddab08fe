#ifndef HOLDFAST_ENGINE_EXPERT_PROFILE_FILE_H_
#define HOLDFAST_ENGINE_EXPERT_PROFILE_FILE_H_

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

#include "base/status.h"
#include "engine/background_thread.h"
#include "store/file_system.h"
#include "store/model_identity.h"
#include "weights/expert_tier.h"

namespace holdfast {

// Where a store's folder has the profile of a model.
std::string ExpertProfilePath(const std::string& store_dir, const ModelIdentity& identity);
ExpertProfileKey ExpertProfileKeyOf(const ModelIdentity& identity, std::vector<int64_t> n_experts);
// kNotFound when there is none. Reads no file of another size.
Result<ExpertProfile> ReadExpertProfile(FileSystem* file_system, const std::string& path,
                                        const ExpertProfileKey& key);

// Keeps what a tier learns in a file beside the store, for the next start. A profile is worth
// nothing but time: whatever goes wrong with it is said once and otherwise ignored.
//
// Threads: Save() from any, the others from that of steps.
class ExpertProfileFile {
 public:
  // The tier outlives it.
  ExpertProfileFile(FileSystem* file_system, const std::string& store_dir,
                    const ModelIdentity& identity, ExpertTier* tier);
  ~ExpertProfileFile();

  // Lets the tier begin with what the file has. What came of it, for people; empty when there is
  // no file.
  std::string Load();
  // Begins to write it when a minute has passed; does not wait for the disk.
  void Tick();
  // Writes it now, unless nothing has been learned since it was last written.
  void Save();

 private:
  Status Write(const ExpertProfile& profile);

  FileSystem* const file_system_;
  const std::string path_;
  ExpertTier* const tier_;
  const ExpertProfileKey key_;
  std::chrono::steady_clock::time_point last_;  // Tick() wrote
  std::mutex mutex_;
  uint64_t n_uses_saved_ = 0;  // guarded by mutex_
  bool failed_ = false;        // as above: it has been said
  std::optional<BackgroundThread> writer_;
};

}  // namespace holdfast

#endif  // HOLDFAST_ENGINE_EXPERT_PROFILE_FILE_H_
