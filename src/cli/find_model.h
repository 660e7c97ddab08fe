#ifndef HOLDFAST_CLI_FIND_MODEL_H_
#define HOLDFAST_CLI_FIND_MODEL_H_

#include <filesystem>
#include <string>
#include <vector>

#include "base/status.h"

namespace holdfast::cli {

// The name of the demo model's file.
inline constexpr char kDemoModelFile[] = "holdfast-demo-Q4_K_M.gguf";

// Where the shipped demo model may lie, in the order of looking: beside the binary, under its
// install prefix (share/holdfast/models), in the source tree it was built in.
std::vector<std::filesystem::path> DemoModelPlaces(const std::filesystem::path& binary);

// `model` if it is not empty, else the first demo model there is. kNotFound naming the places.
Result<std::string> FindModel(const std::string& model);

// The draft-head sidecar beside a model: PREFIX-mtp.gguf or mtp-PREFIX.gguf, where PREFIX begins
// the model's own file name and ends at a '-' or '.'; the longest prefix wins. Empty: none.
std::string FindSidecar(const std::filesystem::path& model);

// Why a sidecar that nobody asked for cannot be used with a model; OK when it can, or when the
// model itself does not load, which is for whoever loads it to say. Reads headers only.
Status CheckSidecar(const std::string& model, const std::string& sidecar);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_FIND_MODEL_H_
