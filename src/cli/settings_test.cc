#include "cli/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <map>
#include <string>

namespace holdfast::cli {
namespace {

TEST(SettingsTest, EachValueSaysWhereItCameFromAndSecretsStaySecret) {
  CLI::App app;
  std::string model, kv = "int8", store;
  int slots = 4, port = 8080;
  bool insecure = false, hidden = false;
  std::vector<std::string> keys;
  app.add_option("-m,--model", model);
  app.add_option("--kv", kv)->capture_default_str();
  app.add_option("--store", store);
  app.add_option("--slots", slots)->envname("HOLDFAST_SETTINGS_TEST_SLOTS");
  app.add_option("--port", port)->envname("HOLDFAST_SETTINGS_TEST_PORT");
  app.add_flag("--insecure", insecure);
  app.add_option("--api-key", keys);
  app.add_flag("--hidden", hidden)->group("");
  setenv("HOLDFAST_SETTINGS_TEST_SLOTS", "9", 1);
  setenv("HOLDFAST_SETTINGS_TEST_PORT", "1", 1);
  app.parse("-m /home/marta/models/big.gguf --port 99 --api-key secret --api-key other");

  std::map<std::string, std::pair<std::string, std::string>> found;
  for (const Setting& setting : SettingsOf(app)) {
    EXPECT_THAT(setting.value, ::testing::Not(::testing::HasSubstr("secret")));
    found[setting.name] = {setting.value, setting.source};
  }
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(found["--model"], Pair("big.gguf", "flag"));
  EXPECT_EQ(found["--kv"], Pair("int8", "default"));
  EXPECT_EQ(found["--store"], Pair("", "default"));
  EXPECT_EQ(found["--slots"], Pair("9", "environment"));
  EXPECT_EQ(found["--port"], Pair("99", "flag"));
  EXPECT_EQ(found["--insecure"], Pair("false", "default"));
  EXPECT_EQ(found["--api-key"], Pair("2 set", "flag"));
  EXPECT_EQ(found.count("--hidden"), 0u);
  EXPECT_EQ(found.count("--help"), 0u);
}

}  // namespace
}  // namespace holdfast::cli
