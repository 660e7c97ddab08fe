#ifndef HOLDFAST_CLI_VERIFY_H_
#define HOLDFAST_CLI_VERIFY_H_

// `holdfast verify`: proves that nothing changes an answer on this machine and model.

#include <cstdint>
#include <ostream>
#include <string>

#include "base/status.h"
#include "cli/model_options.h"

namespace holdfast::cli {

struct VerifyCommandOptions {
  ModelOptions model;
  bool quick = false;
  bool json = false;
  std::string only;
  uint64_t seed = 1;
  std::string cache_min_free = "1G";  // SIZE that must stay free in the host
  std::string memory_limit;           // SIZE of this process; empty: the host's
  // Hidden: this process is the one that goes on with what another has saved in this folder.
  std::string restored_part;
};

// An error when something is different (it says where), or when the proof cannot be carried out.
Status RunVerifyCommand(const VerifyCommandOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_VERIFY_H_
