#include "cli/config.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/settings.h"

namespace holdfast::cli {
namespace {

// A value as TOML writes it.
std::string TomlValue(const std::string& value) {
  const bool is_word = value == "true" || value == "false" || value == "[]";
  double number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool is_number =
      !value.empty() && error == std::errc() && end == value.data() + value.size();
  return is_word || is_number ? value : fmt::format("\"{}\"", value);
}

void PrintExample(const CLI::App& command, std::ostream& out) {
  fmt::print(out,
             "# Settings of holdfast {}. The environment and flags go before this file.\n[{}]\n",
             command.get_name(), command.get_name());
  for (const CLI::Option* option : command.get_options()) {
    const auto& names = option->get_lnames();
    if (names.empty() || option->get_group().empty()) continue;
    if (names.front() == "help" || names.front() == "config") continue;
    const bool is_flag = option->get_expected_max() == 0;
    fmt::print(out, "\n# {}\n# {} = {}\n", option->get_description(), names.front(),
               is_flag ? "false" : TomlValue(option->get_default_str()));
  }
}

void PrintSettings(const std::vector<Setting>& settings, const std::string& path,
                   std::ostream& out) {
  fmt::print(out, "file  {}\n\n", path.empty() ? "none" : path);
  size_t width = 0;
  for (const Setting& setting : settings) width = std::max(width, setting.name.size());
  for (const Setting& setting : settings) {
    fmt::print(out, "{:<{}}  {:<12}  {}\n", setting.name, width, setting.source, setting.value);
  }
}

}  // namespace

Status RunConfig(const ConfigOptions& options, const ConfigSources& sources, CLI::App* app,
                 std::ostream& out) {
  CLI::App* command = FindCommand(app, options.command);
  if (command == nullptr) {
    return NotFoundError(fmt::format("no command is called '{}'", options.command));
  }
  // Help leaves out defaults that say nothing; here all are wanted.
  for (CLI::Option* option : command->get_options()) {
    if (option->get_default_str().empty()) option->capture_default_str();
  }
  if (options.example) {
    PrintExample(*command, out);
    return OkStatus();
  }
  const std::vector<Setting> settings = SettingsInFull(*command, sources.configured);
  if (!options.json) {
    PrintSettings(settings, sources.path, out);
    return OkStatus();
  }
  nlohmann::ordered_json json{{"file", nullptr}, {"settings", nlohmann::ordered_json::array()}};
  if (!sources.path.empty()) json["file"] = sources.path;
  for (const Setting& setting : settings) {
    json["settings"].push_back(
        {{"name", setting.name}, {"value", setting.value}, {"source", setting.source}});
  }
  out << json.dump() << "\n";
  return OkStatus();
}

}  // namespace holdfast::cli
