#ifndef HOLDFAST_CLI_CONFIG_FILE_H_
#define HOLDFAST_CLI_CONFIG_FILE_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace holdfast::cli {

// A file of settings (TOML). A key is a flag's name without "--". At the top it counts for every
// command that has the flag, in the table of a command ([serve]) for that one. The environment and
// flags go before the file.
struct ConfigFile {
  struct Entry {
    std::string command;  // empty: every command
    std::string key;
    std::vector<std::string> values;  // more than one: an array
    int line = 0;
  };
  std::string path;
  std::vector<Entry> entries;

  // kNotFound, or kInvalidArgument naming file and line.
  static Result<ConfigFile> Read(const std::string& path);
};

// The flags whose default value a file has set.
using ConfiguredOptions = std::set<const CLI::Option*>;

// Null: there is none of this name.
CLI::App* FindCommand(CLI::App* app, const std::string& name);

// Makes the entries defaults of the flags they name. Errors name file, line and key; a value that
// the flag does not take is one.
Result<ConfiguredOptions> ApplyConfig(const ConfigFile& file, CLI::App* app);

// $XDG_CONFIG_HOME/holdfast/config.toml, else ~/.config/holdfast/config.toml, from these two values
// (either may be empty); empty: neither is set.
std::string UserConfigPath(std::string_view xdg_config_home, std::string_view home);
inline constexpr char kSystemConfigPath[] = "/etc/holdfast/config.toml";

// Which file counts: what --config among `arguments` or HOLDFAST_CONFIG names ("off": none), else
// the user's, else the system's, if it is there. Empty: none.
std::string ChooseConfigPath(const std::vector<std::string>& arguments);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_CONFIG_FILE_H_
