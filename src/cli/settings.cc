#include "cli/settings.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

namespace holdfast::cli {
namespace {

std::string WithoutFolder(const std::string& value) {
  const size_t slash = value.find_last_of('/');
  return slash == std::string::npos || slash + 1 == value.size() ? value : value.substr(slash + 1);
}

std::string ValueOf(const CLI::Option& option) {
  const bool is_flag = option.get_expected_max() == 0;
  if (option.count() == 0) return is_flag ? "false" : option.get_default_str();
  if (option.get_lnames().front() == "api-key") {
    return fmt::format("{} set", option.results().size());
  }
  std::string value;
  for (const std::string& result : option.results()) {
    if (!value.empty()) value += ", ";
    value += WithoutFolder(result);
  }
  return value;
}

// The parser takes the environment only where there is no flag, and does not say so afterwards.
std::string SourceOf(const CLI::Option& option) {
  if (option.count() == 0) return "default";
  const char* environment = std::getenv(option.get_envname().c_str());
  const bool same = environment != nullptr && option.results().size() == 1 &&
                    option.results().front() == environment;
  return same ? "environment" : "flag";
}

}  // namespace

std::vector<Setting> SettingsOf(const CLI::App& command) {
  std::vector<Setting> settings;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") continue;
    if (option->get_group().empty()) continue;  // not for people
    settings.push_back({"--" + option->get_lnames().front(), ValueOf(*option), SourceOf(*option)});
  }
  return settings;
}

}  // namespace holdfast::cli
