#ifndef HOLDFAST_CLI_SETTINGS_H_
#define HOLDFAST_CLI_SETTINGS_H_

#include <vector>

#include "cli/config_file.h"
#include "server/model_service.h"

namespace holdfast::cli {

// Every flag of a parsed command, for people: its value, and where that came from (flag,
// environment, config file, default). Of keys only how many there are, of files and folders only
// the name.
std::vector<Setting> SettingsOf(const CLI::App& command, const ConfiguredOptions& configured = {});

// The same for whoever sits at the machine: files with their folders, and of a command that was not
// parsed what the environment says.
std::vector<Setting> SettingsInFull(const CLI::App& command, const ConfiguredOptions& configured);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_SETTINGS_H_
