#include "cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/temp_folder.h"
#include "cli/settings.h"

namespace holdfast::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() {
    serve_->add_option("--slots", slots_)->capture_default_str()->envname("HOLDFAST_SLOTS");
    serve_->add_option("--cors-origin", origins_);
    serve_->add_option("--store", store_)->envname("HOLDFAST_STORE");
    serve_->add_option("--api-key", keys_);
    serve_->add_flag("--insecure", insecure_);
    serve_->add_option_function<float>("--temp", [this](float value) { temp_ = value; });
    bench_->add_flag("--store", bench_store_)->envname("HOLDFAST_BENCH_STORE");
    bench_->add_option("--slots", bench_slots_)->check(CLI::Range(1, 64));
  }

  Result<ConfiguredOptions> Apply(const std::string& text) {
    const std::string path = folder_.path() + "/config.toml";
    std::ofstream(path) << text;
    const Result<ConfigFile> file = ConfigFile::Read(path);
    if (!file.ok()) return file.status();
    return ApplyConfig(*file, &app_);
  }
  std::string Error(const std::string& text) { return Apply(text).status().message(); }

  const TempFolder folder_ = TempFolder::Create("config").value();
  CLI::App app_;
  CLI::App* const serve_ = app_.add_subcommand("serve");
  CLI::App* const bench_ = app_.add_subcommand("bench");
  int slots_ = 4, bench_slots_ = 1;
  std::vector<std::string> origins_, keys_;
  std::string store_;
  bool insecure_ = false, bench_store_ = false;
  std::optional<float> temp_;
};

TEST_F(ConfigFileTest, ValuesAreDefaultsOfTheFlagsTheyName) {
  const auto configured = Apply(R"(
    slots = 8              # of every command
    store = "/srv/talks"   # bench's --store means something else
    [serve]
    slots = 6
    cors-origin = ["https://a.example", "https://b.example"]
    insecure = true
    temp = 0.5
    api_key = "secret"
  )");
  ASSERT_TRUE(configured.ok()) << configured.status().ToString();
  app_.parse("serve");
  EXPECT_EQ(slots_, 6);
  EXPECT_EQ(bench_slots_, 8);
  EXPECT_EQ(store_, "/srv/talks");
  EXPECT_FALSE(bench_store_);
  EXPECT_THAT(origins_, ElementsAre("https://a.example", "https://b.example"));
  EXPECT_TRUE(insecure_);
  EXPECT_EQ(temp_, 0.5f);
  EXPECT_THAT(keys_, ElementsAre("secret"));
  for (const Setting& setting : SettingsOf(*serve_, *configured)) {
    EXPECT_EQ(setting.source, "config file") << setting.name;
    EXPECT_THAT(setting.value, ::testing::Not(HasSubstr("secret")));
  }
}

TEST_F(ConfigFileTest, FlagsAndTheEnvironmentGoFirst) {
  ASSERT_TRUE(Apply("[serve]\nslots = 6\nstore = \"/file\"\ninsecure = true").ok());
  ::setenv("HOLDFAST_STORE", "/environment", 1);
  app_.parse("serve --slots 7");
  ::unsetenv("HOLDFAST_STORE");
  EXPECT_EQ(slots_, 7);
  EXPECT_EQ(store_, "/environment");
  EXPECT_TRUE(insecure_);
}

TEST_F(ConfigFileTest, EveryMistakeIsNamedWithItsLine) {
  const std::string path = folder_.path() + "/config.toml";
  EXPECT_EQ(Error("\nslot = 1"), path + ": line 2: no command has a flag --slot");
  EXPECT_EQ(Error("[serve]\ntemperature = 1"), path + ": line 2: serve has no flag --temperature");
  EXPECT_EQ(Error("[server]\nslots = 1"), path + ": line 2: no command is called 'server'");
  EXPECT_THAT(Error("[serve]\nslots = \"many\""), HasSubstr(": line 2: "));
  EXPECT_THAT(Error("[bench]\nslots = 65"), HasSubstr("65"));
  EXPECT_THAT(Error("slots = "), HasSubstr(": line 1: "));
  EXPECT_THAT(Error("[serve]\nslots = 1979-05-27"), HasSubstr("slots: wanted text, a number"));
  EXPECT_THAT(Error("[serve.deep]\nslots = 1"), HasSubstr("a table in a table"));
  EXPECT_EQ(Error("help = true"), path + ": line 1: no command has a flag --help");
  EXPECT_EQ(ConfigFile::Read("/nonexistent.toml").status().code(), StatusCode::kNotFound);
}

TEST(ConfigPathTest, TheNamedFileCountsElseTheOneInTheHomeFolder) {
  EXPECT_EQ(UserConfigPath("/x", "/home/u"), "/x/holdfast/config.toml");
  EXPECT_EQ(UserConfigPath("", "/home/u"), "/home/u/.config/holdfast/config.toml");
  EXPECT_EQ(UserConfigPath("relative", ""), "");
  EXPECT_EQ(ChooseConfigPath({"serve", "--config", "/a.toml"}), "/a.toml");
  EXPECT_EQ(ChooseConfigPath({"serve", "--config=/b.toml"}), "/b.toml");
  EXPECT_EQ(ChooseConfigPath({"--config", "off"}), "");
  ::setenv("HOLDFAST_CONFIG", "/c.toml", 1);
  EXPECT_EQ(ChooseConfigPath({"serve"}), "/c.toml");
  EXPECT_EQ(ChooseConfigPath({"serve", "--config", "off"}), "");
  ::unsetenv("HOLDFAST_CONFIG");
  const TempFolder folder = TempFolder::Create("home").value();
  ::setenv("XDG_CONFIG_HOME", folder.path().c_str(), 1);
  EXPECT_EQ(ChooseConfigPath({"serve"}), "");
  std::filesystem::create_directory(folder.path() + "/holdfast");
  std::ofstream(folder.path() + "/holdfast/config.toml") << "";
  EXPECT_EQ(ChooseConfigPath({"serve"}), folder.path() + "/holdfast/config.toml");
  ::unsetenv("XDG_CONFIG_HOME");
}

}  // namespace
}  // namespace holdfast::cli
