#ifndef HOLDFAST_CLI_CONFIG_H_
#define HOLDFAST_CLI_CONFIG_H_

#include <ostream>
#include <string>

#include "cli/config_file.h"

namespace holdfast::cli {

struct ConfigOptions {
  std::string command = "serve";  // whose settings are shown
  bool example = false;           // print a file with every setting instead
  bool json = false;
};

// What the settings files of a run came to: the file and the flags that it, or nothing, has set.
struct ConfigSources {
  std::string path;  // empty: no file
  ConfiguredOptions configured;
};

// Prints what a command would run with when it was given no flags, and where each value comes from.
// Keys are not shown. kNotFound: no such command.
Status RunConfig(const ConfigOptions& options, const ConfigSources& sources, CLI::App* app,
                 std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_CONFIG_H_
