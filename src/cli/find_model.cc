#include "cli/find_model.h"

#include <fmt/format.h>

#include <memory>
#include <system_error>

#include "weights/gguf.h"
#include "weights/model_config.h"
#include "weights/model_weights.h"

#ifndef HOLDFAST_SOURCE_DIR
#define HOLDFAST_SOURCE_DIR ""
#endif

namespace holdfast::cli {
namespace {

namespace fs = std::filesystem;

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

fs::path BinaryPath() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

}  // namespace

std::vector<fs::path> DemoModelPlaces(const fs::path& binary) {
  std::vector<fs::path> places;
  if (!binary.empty()) {
    const fs::path folder = binary.parent_path();
    places.push_back(folder / kDemoModelFile);
    places.push_back(folder.parent_path() / "share/holdfast/models" / kDemoModelFile);
    // A build folder inside the source tree.
    places.push_back(folder.parent_path() / "models/demo" / kDemoModelFile);
  }
  if (const fs::path source = HOLDFAST_SOURCE_DIR; !source.empty()) {
    places.push_back(source / "models/demo" / kDemoModelFile);
  }
  return places;
}

Result<std::string> FindModel(const std::string& model) {
  if (!model.empty()) return model;
  std::string looked;
  for (const fs::path& place : DemoModelPlaces(BinaryPath())) {
    if (IsFile(place)) return place.string();
    looked += "\n  " + place.string();
  }
  return NotFoundError(fmt::format(
      "no --model (or HOLDFAST_MODEL) was given, and the demo model is in none of:{}", looked));
}

std::string FindSidecar(const fs::path& model) {
  const std::string name = model.filename().string();
  const fs::path folder = model.parent_path();
  for (size_t n = name.size(); n > 0; --n) {
    if (name[n - 1] != '-' && name[n - 1] != '.') continue;
    const std::string prefix = name.substr(0, n - 1);
    for (const std::string& candidate : {prefix + "-mtp.gguf", "mtp-" + prefix + ".gguf"}) {
      if (candidate != name && IsFile(folder / candidate)) return (folder / candidate).string();
    }
  }
  return {};
}

Status CheckSidecar(const std::string& model, const std::string& sidecar) {
  const Result<std::unique_ptr<GgufFile>> trunk = GgufFile::Open(model);
  if (!trunk.ok() || !ReadModelConfig(**trunk).ok()) return OkStatus();
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<GgufFile> file, GgufFile::Open(sidecar));
  HF_ASSIGN_OR_RETURN(const ModelConfig config, ReadModelConfig(**trunk, file.get()));
  return BindModelWeights(config, **trunk, file.get()).status();
}

}  // namespace holdfast::cli
