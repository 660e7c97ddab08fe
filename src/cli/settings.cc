#include "cli/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <string>

namespace holdfast::cli {
namespace {

std::string WithoutFolder(const std::string& value) {
  const size_t slash = value.find_last_of('/');
  return slash == std::string::npos || slash + 1 == value.size() ? value : value.substr(slash + 1);
}

// Of the environment, where the parser was not run or took it.
std::string FromEnvironment(const CLI::Option& option) {
  const char* value =
      option.get_envname().empty() ? nullptr : std::getenv(option.get_envname().c_str());
  return value == nullptr ? "" : value;
}

Setting SettingOf(const CLI::Option& option, const ConfiguredOptions& configured, bool in_full) {
  Setting setting{"--" + option.get_lnames().front(), "", "default"};
  std::vector<std::string> values = option.results();
  const std::string environment = FromEnvironment(option);
  if (!values.empty()) {
    // The parser takes the environment only where there is no flag, and does not say so afterwards.
    const bool same = values.size() == 1 && values.front() == environment;
    setting.source = same ? "environment" : "flag";
  } else if (!environment.empty()) {
    values = {environment};
    setting.source = "environment";
  } else {
    const std::string& value = option.get_default_str();
    if (!value.empty() && value != "[]") values = {value};
    if (configured.contains(&option)) setting.source = "config file";
  }
  const bool is_flag = option.get_expected_max() == 0;
  if (is_flag && values.empty()) values = {"false"};
  if (!in_full) std::transform(values.begin(), values.end(), values.begin(), WithoutFolder);
  const bool is_secret = option.get_lnames().front() == "api-key";
  setting.value = is_secret && !values.empty() ? fmt::format("{} set", values.size())
                                               : fmt::format("{}", fmt::join(values, ", "));
  return setting;
}

bool IsForPeople(const CLI::Option& option) {
  return !option.get_lnames().empty() && option.get_lnames().front() != "help" &&
         !option.get_group().empty();
}

std::vector<Setting> Settings(const CLI::App& command, const ConfiguredOptions& configured,
                              bool in_full) {
  std::vector<Setting> settings;
  for (const CLI::Option* option : command.get_options()) {
    if (IsForPeople(*option)) settings.push_back(SettingOf(*option, configured, in_full));
  }
  return settings;
}

}  // namespace

std::vector<Setting> SettingsOf(const CLI::App& command, const ConfiguredOptions& configured) {
  return Settings(command, configured, /*in_full=*/false);
}

std::vector<Setting> SettingsInFull(const CLI::App& command, const ConfiguredOptions& configured) {
  return Settings(command, configured, /*in_full=*/true);
}

}  // namespace holdfast::cli
