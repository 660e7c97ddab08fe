#include "cli/main.h"

#include <fmt/format.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "base/version.h"
#include "cli/commands.h"

namespace holdfast::cli {
namespace {

constexpr int kDone = 0, kFailed = 1, kWrongUsage = 2;

// --max-body-mib is HOLDFAST_MAX_BODY_MIB in the environment, and so on for every flag.
void NameEnvironmentTwins(CLI::App* command) {
  for (CLI::Option* option : command->get_options()) {
    if (option->get_lnames().empty() || option->get_lnames().front() == "help") continue;
    if (option->get_group().empty()) continue;  // not for people
    if (!option->get_envname().empty()) continue;
    std::string name = "HOLDFAST_";
    for (const char c : option->get_lnames().front()) {
      name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    option->envname(name);
  }
}

// The parser's own conversion takes a number that does not fit for the largest one there is.
std::string CheckWholeNumber(const std::string& text, bool is_signed) {
  const char* const end = text.data() + text.size();
  int64_t signed_value;
  uint64_t unsigned_value;
  const std::errc error = is_signed ? std::from_chars(text.data(), end, signed_value).ec
                                    : std::from_chars(text.data(), end, unsigned_value).ec;
  if (error == std::errc::result_out_of_range) return fmt::format("{} is too large a number", text);
  if (!is_signed && text.starts_with('-')) return fmt::format("{} is below 0", text);
  return {};  // what is no number the parser says itself
}

void CheckWholeNumbers(CLI::App* command) {
  for (CLI::Option* option : command->get_options()) {
    const std::string type = option->get_type_name();
    if (!type.starts_with("INT") && !type.starts_with("UINT")) continue;
    option->check([is_signed = type.starts_with("INT")](const std::string& text) {
      return CheckWholeNumber(text, is_signed);
    });
  }
}

// Logs go to standard error: standard output belongs to replies.
void StartLogging(bool verbose) {
  spdlog::drop("holdfast");  // of an earlier call
  auto logger = spdlog::stderr_color_mt("holdfast");
  logger->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%l%$ %v");
  logger->set_level(verbose ? spdlog::level::info : spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

Status ReadConfig(const std::vector<std::string>& arguments, CLI::App* app,
                  ConfigSources* sources) {
  sources->path = ChooseConfigPath(arguments);
  if (sources->path.empty()) return OkStatus();
  HF_ASSIGN_OR_RETURN(const ConfigFile file, ConfigFile::Read(sources->path));
  HF_ASSIGN_OR_RETURN(sources->configured, ApplyConfig(file, app));
  return OkStatus();
}

Status RunOne(const Command& command) {
  Status status;
  try {
    status = command.run();
  } catch (const std::bad_alloc&) {
    status = ResourceExhaustedError("out of memory");
  }
  errno = 0;
  std::cout.flush();
  if (status.ok() && !std::cout) return ErrnoError(errno == 0 ? EIO : errno, "standard output");
  return status;
}

}  // namespace

int Main(int argc, char** argv) {
  CLI::App app("holdfast: a local LLM engine that never reads a conversation twice", "holdfast");
  app.set_version_flag("--version", std::string("holdfast ") + kVersion);
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);

  const auto sources = std::make_shared<ConfigSources>();
  std::vector<Command> commands = MakeCommands(&app, sources);
  std::string config;
  for (const Command& command : commands) {
    command.app->add_option("--config", config,
                            "settings file, or off; default: ~/.config/holdfast/config.toml, "
                            "/etc/holdfast/config.toml");
    NameEnvironmentTwins(command.app);
    CheckWholeNumbers(command.app);
  }
  // Before the flags are parsed: what the file says are their defaults.
  if (const Status status = ReadConfig({argv + 1, argv + argc}, &app, sources.get());
      !status.ok()) {
    fmt::print(stderr, "holdfast: {}\n", status.message());
    return kWrongUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "holdfast: {} (see holdfast --help)\n", error.what());
    return kWrongUsage;
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    StartLogging(command.logs);
    const Status status = RunOne(command);
    spdlog::default_logger()->flush();
    if (status.ok()) return kDone;
    fmt::print(stderr, "holdfast: {}\n", status.message());
    return kFailed;
  }
  return kWrongUsage;  // not reached: a sub-command is required
}

}  // namespace holdfast::cli
