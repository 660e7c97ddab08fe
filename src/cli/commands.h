#ifndef HOLDFAST_CLI_COMMANDS_H_
#define HOLDFAST_CLI_COMMANDS_H_

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "cli/config.h"

namespace holdfast::cli {

// A sub-command: its flags as the parser knows them, and what it does once they are parsed.
struct Command {
  CLI::App* app = nullptr;
  bool logs = false;  // shows informative log lines, not only warnings
  std::function<Status()> run;
};

// Declares all sub-commands and their flags on `app`. Each keeps its own options. `sources` is read
// when a command runs.
std::vector<Command> MakeCommands(CLI::App* app, std::shared_ptr<const ConfigSources> sources);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_COMMANDS_H_
