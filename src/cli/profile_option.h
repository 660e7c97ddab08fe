#ifndef HOLDFAST_CLI_PROFILE_OPTION_H_
#define HOLDFAST_CLI_PROFILE_OPTION_H_

#include <memory>
#include <ostream>
#include <string>

#include "base/status.h"
#include "ops/profile/profile.h"

namespace CLI {
class App;
}

namespace holdfast::cli {

// --profile [FILE]: where the time of steps goes, and with a file every op for a trace viewer.
struct ProfileOption {
  bool on = false;
  std::string trace_path;

  // Null when it is off: nothing is measured and nothing costs.
  std::shared_ptr<Profile> Make() const;
  // The table (left out when `with_table` is false) and the trace.
  Status Report(const Profile& profile, bool with_table, std::ostream& out) const;
};

void AddProfileFlag(CLI::App* app, ProfileOption* option);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_PROFILE_OPTION_H_
