#include "cli/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "base/temp_folder.h"
#include "cli/commands.h"

namespace holdfast::cli {
namespace {

using ::testing::HasSubstr;

std::string Print(ConfigOptions options, const ConfigSources& sources, CLI::App* app) {
  std::ostringstream out;
  const Status status = RunConfig(options, sources, app, out);
  return status.ok() ? out.str() : status.ToString();
}

TEST(ConfigTest, ShowsEachSettingWithItsSource) {
  CLI::App app;
  int port = 8080;
  std::string kv = "int8";
  CLI::App* serve = app.add_subcommand("serve");
  serve->add_option("--port", port)->capture_default_str();
  const CLI::Option* option = serve->add_option("--kv", kv)->capture_default_str();
  const ConfigSources sources{"/etc/holdfast.toml", {option}};
  const std::string text = Print({}, sources, &app);
  EXPECT_THAT(text, HasSubstr("file  /etc/holdfast.toml"));
  EXPECT_THAT(text, HasSubstr("--port  default       8080"));
  EXPECT_THAT(text, HasSubstr("--kv    config file   int8"));
  const auto json = nlohmann::json::parse(Print({.json = true}, sources, &app));
  EXPECT_EQ(json["file"], "/etc/holdfast.toml");
  EXPECT_EQ(json["settings"].size(), 2u);
  EXPECT_THAT(Print({.command = "none"}, sources, &app), HasSubstr("no command is called 'none'"));
}

// A person takes the marks off the lines wanted; the file must then be one.
TEST(ConfigTest, TheExampleIsAFileThatIsTaken) {
  CLI::App app;
  const auto sources = std::make_shared<ConfigSources>();
  const std::vector<Command> commands = MakeCommands(&app, sources);  // own what flags set
  std::istringstream example(Print({.example = true}, *sources, &app));
  std::string text, line;
  int n_settings = 0;
  while (std::getline(example, line)) {
    const size_t equals = line.find(" = ");
    const bool is_setting =
        line.starts_with("# ") && equals != std::string::npos && line.find(' ', 2) == equals;
    // What has no default is empty, which not every flag takes.
    if (is_setting && !line.ends_with("\"\"") && !line.ends_with("[]")) {
      text += line.substr(2) + "\n";
      ++n_settings;
    } else {
      text += line + "\n";
    }
  }
  EXPECT_GT(n_settings, 20);
  const TempFolder folder = TempFolder::Create("example").value();
  const std::string path = folder.path() + "/config.toml";
  std::ofstream(path) << text;
  const Result<ConfigFile> file = ConfigFile::Read(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto configured = ApplyConfig(*file, &app);
  EXPECT_TRUE(configured.ok()) << configured.status().ToString();
  EXPECT_EQ(static_cast<int>(configured->size()), n_settings);
}

}  // namespace
}  // namespace holdfast::cli
