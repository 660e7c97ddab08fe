#ifndef HOLDFAST_CLI_SETTINGS_H_
#define HOLDFAST_CLI_SETTINGS_H_

#include <vector>

#include "server/model_service.h"

namespace CLI {
class App;
}

namespace holdfast::cli {

// Every flag of a parsed command, for people: its value, and where that came from. Of keys only how
// many there are, of files and folders only the name.
std::vector<Setting> SettingsOf(const CLI::App& command);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_SETTINGS_H_
