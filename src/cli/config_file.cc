#include "cli/config_file.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "cli/token_file.h"

namespace holdfast::cli {
namespace {

std::optional<std::string> ScalarText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  return std::nullopt;
}

Status At(const std::string& path, int line, const std::string& what) {
  return InvalidArgumentError(fmt::format("{}: line {}: {}", path, line, what));
}

Status ReadTable(const toml::table& table, const std::string& command, ConfigFile* file) {
  for (const auto& [key, node] : table) {
    ConfigFile::Entry entry{
        command, std::string(key.str()), {}, static_cast<int>(node.source().begin.line)};
    std::replace(entry.key.begin(), entry.key.end(), '_', '-');
    if (const toml::table* inner = node.as_table()) {
      if (!command.empty()) return At(file->path, entry.line, "a table in a table");
      HF_RETURN_IF_ERROR(ReadTable(*inner, entry.key, file));
      continue;
    }
    const auto add = [&](const toml::node& value) {
      std::optional<std::string> text = ScalarText(value);
      if (!text) {
        return At(file->path, entry.line,
                  fmt::format("{}: wanted text, a number, true or false, or an array of those",
                              entry.key));
      }
      entry.values.push_back(std::move(*text));
      return OkStatus();
    };
    if (const toml::array* array = node.as_array()) {
      for (const toml::node& value : *array) HF_RETURN_IF_ERROR(add(value));
    } else {
      HF_RETURN_IF_ERROR(add(node));
    }
    file->entries.push_back(std::move(entry));
  }
  return OkStatus();
}

// A flag of `app` that people may set by this key. The environment's twin tells two flags of one
// name apart that mean different things.
CLI::Option* FindOption(CLI::App* app, const std::string& key) {
  CLI::Option* option = app->get_option_no_throw("--" + key);
  if (option == nullptr || option->get_group().empty() || key == "help" || key == "config") {
    return nullptr;
  }
  std::string twin = "HOLDFAST_" + key;
  for (char& c : twin) c = c == '-' ? '_' : static_cast<char>(std::toupper(c));
  return option->get_envname().empty() || option->get_envname() == twin ? option : nullptr;
}

std::vector<CLI::App*> Children(CLI::App* app) {
  return app->get_subcommands([](const CLI::App*) { return true; });
}

void CollectOptions(CLI::App* app, const std::string& key, std::vector<CLI::Option*>* options) {
  if (CLI::Option* option = FindOption(app, key)) options->push_back(option);
  for (CLI::App* child : Children(app)) CollectOptions(child, key, options);
}

std::string ToDefault(const std::vector<std::string>& values) {
  return values.size() == 1 ? values.front() : fmt::format("[{}]", fmt::join(values, ","));
}

}  // namespace

CLI::App* FindCommand(CLI::App* app, const std::string& name) {
  for (CLI::App* child : Children(app)) {
    if (child->get_name() == name) return child;
  }
  return nullptr;
}

Result<ConfigFile> ConfigFile::Read(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ConfigFile file{path, {}};
  try {
    const toml::table table = toml::parse(text, path);
    HF_RETURN_IF_ERROR(ReadTable(table, "", &file));
  } catch (const toml::parse_error& error) {
    return At(path, static_cast<int>(error.source().begin.line), std::string(error.description()));
  }
  std::stable_sort(file.entries.begin(), file.entries.end(), [](const Entry& a, const Entry& b) {
    return a.command.empty() && !b.command.empty();  // a command's own table has the last word
  });
  return file;
}

Result<ConfiguredOptions> ApplyConfig(const ConfigFile& file, CLI::App* app) {
  ConfiguredOptions configured;
  for (const ConfigFile::Entry& entry : file.entries) {
    CLI::App* root = entry.command.empty() ? app : FindCommand(app, entry.command);
    if (root == nullptr) {
      return At(file.path, entry.line, fmt::format("no command is called '{}'", entry.command));
    }
    std::vector<CLI::Option*> options;
    CollectOptions(root, entry.key, &options);
    if (options.empty()) {
      return At(file.path, entry.line,
                entry.command.empty()
                    ? fmt::format("no command has a flag --{}", entry.key)
                    : fmt::format("{} has no flag --{}", entry.command, entry.key));
    }
    for (CLI::Option* option : options) {
      try {
        option->run_callback_for_default()->default_val(ToDefault(entry.values));
        option->run_callback_for_default(false);
      } catch (const CLI::Error& error) {
        return At(file.path, entry.line, error.what());
      }
      configured.insert(option);
    }
  }
  return configured;
}

std::string UserConfigPath(std::string_view xdg_config_home, std::string_view home) {
  std::filesystem::path folder;
  if (xdg_config_home.starts_with('/')) {
    folder = xdg_config_home;
  } else if (home.starts_with('/')) {
    folder = std::filesystem::path(home) / ".config";
  } else {
    return {};
  }
  return (folder / "holdfast/config.toml").string();
}

std::string ChooseConfigPath(const std::vector<std::string>& arguments) {
  const auto environment = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  std::string named = environment("HOLDFAST_CONFIG");
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") break;
    if (argument == "--config" && i + 1 < arguments.size()) named = arguments[i + 1];
    if (argument.starts_with("--config=")) named = argument.substr(argument.find('=') + 1);
  }
  if (named == "off") return {};
  if (!named.empty()) return named;
  const std::string user = UserConfigPath(environment("XDG_CONFIG_HOME"), environment("HOME"));
  for (const std::string& path : {user, std::string(kSystemConfigPath)}) {
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path;
  }
  return {};
}

}  // namespace holdfast::cli
