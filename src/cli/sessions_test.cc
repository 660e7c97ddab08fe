#include "cli/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "store/store.h"
#include "store/store_testing.h"

namespace holdfast::cli {
namespace {

using holdfast::testing::Request;
using holdfast::testing::TestKeys;
using holdfast::testing::Tokens;
using ::testing::HasSubstr;

class SessionsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "holdfast_sessions_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    StoreOptions options;
    options.dir = dir_ + "/store";
    const auto store = Store::Open(options, TestKeys());
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    const auto tokens = Tokens(11);
    SaveRequest request = Request("talk", tokens, 10, {4, 10});
    request.title = "a \x1b[31mtalk";
    request.messages = std::vector<StoredMessage>{{"user", "\"hello\"", {}, {}, 0, 4}};
    ASSERT_TRUE((*store)->Save(request).ok());
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // What an action prints, or its error.
  std::string Run(SessionsOptions options) {
    options.store = dir_ + "/store";
    std::ostringstream out;
    const Status status = RunSessions(options, out);
    return status.ok() ? out.str() : status.ToString();
  }

  std::string dir_;
};

TEST_F(SessionsTest, ListAndShowPrintWhatThereIsAndNothingThatSteersTheTerminal) {
  const std::string list = Run({.action = "list"});
  EXPECT_THAT(list, HasSubstr("talk"));
  EXPECT_THAT(list, HasSubstr("a  [31mtalk"));
  EXPECT_EQ(list.find('\x1b'), std::string::npos);
  const auto json = nlohmann::json::parse(Run({.action = "list", .json = true}));
  EXPECT_EQ(json[0]["durable_tokens"], 10);
  const std::string show = Run({.action = "show", .id = "talk"});
  EXPECT_THAT(show, HasSubstr("live_end"));
  EXPECT_THAT(show, HasSubstr("[0, 4)  user: \"hello\""));
  EXPECT_THAT(Run({.action = "show", .id = "none"}), HasSubstr("is not in the store"));
}

TEST_F(SessionsTest, ExportRemoveAndImportBringItBack) {
  const std::string file = dir_ + "/talk.hfs";
  EXPECT_EQ(Run({.action = "export", .id = "talk", .file = file}), "");
  EXPECT_EQ(Run({.action = "rm", .ids = {"talk"}}), "");
  EXPECT_THAT(Run({.action = "list"}), HasSubstr("no conversations"));
  EXPECT_THAT(Run({.action = "gc"}), HasSubstr("1 segments deleted"));
  EXPECT_THAT(Run({.action = "import", .id = "back", .file = file}), HasSubstr("back: 11 tokens"));
  EXPECT_THAT(Run({.action = "verify"}), HasSubstr("10 parts"));
  EXPECT_THAT(Run({.action = "du"}), HasSubstr("3 pages, 2 running states"));
}

TEST_F(SessionsTest, WhatIsSavedUnderANameIsRestoredFromIt) {
  EXPECT_EQ(Run({.action = "save", .id = "talk", .file = "kept.hfs"}), "");
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/store/exports/kept.hfs"));
  EXPECT_EQ(Run({.action = "rm", .ids = {"talk"}}), "");
  EXPECT_THAT(Run({.action = "restore", .file = "kept.hfs"}), HasSubstr("talk: 11 tokens"));
  EXPECT_THAT(Run({.action = "list"}), HasSubstr("talk"));
  for (const char* name : {"../kept.hfs", "/etc/passwd", ".hidden"}) {
    EXPECT_THAT(Run({.action = "save", .id = "talk", .file = name}), HasSubstr("names, not paths"));
    EXPECT_THAT(Run({.action = "restore", .file = name}), HasSubstr("names, not paths"));
  }
}

TEST_F(SessionsTest, ForkAndPinChangeTheList) {
  EXPECT_EQ(Run({.action = "fork", .id = "talk", .new_id = "copy", .position = 4}), "");
  EXPECT_EQ(Run({.action = "pin", .ids = {"copy"}}), "");
  EXPECT_THAT(Run({.action = "list"}), HasSubstr("[pinned]"));
  EXPECT_THAT(Run({.action = "show", .id = "copy"}), HasSubstr("from talk at 4"));
  EXPECT_EQ(Run({.action = "unpin", .ids = {"copy"}}), "");
  EXPECT_EQ(Run({.action = "list"}).find("[pinned]"), std::string::npos);
}

TEST_F(SessionsTest, AStoreInUseIsLeftAloneAndOneThatIsNotThereIsNotMade) {
  StoreOptions options;
  options.dir = dir_ + "/store";
  const auto store = Store::Open(options, std::nullopt);
  ASSERT_TRUE(store.ok());
  EXPECT_THAT(Run({.action = "list"}), HasSubstr("--server URL, or stop it first"));
  std::ostringstream out;
  EXPECT_EQ(RunSessions({.action = "list", .store = dir_ + "/none"}, out).code(),
            StatusCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/none"));
}

TEST_F(SessionsTest, SaveAsksAServerAndIdsAreCheckedBeforeTheyBecomePaths) {
  const std::string nobody = "http://127.0.0.1:1";
  EXPECT_THAT(Run({.action = "save", .id = "talk", .server = nobody}),
              HasSubstr("no server answers"));
  EXPECT_THAT(Run({.action = "rm", .ids = {"../x"}, .server = nobody}),
              HasSubstr("conversation id"));
  EXPECT_THAT(Run({.action = "show", .id = "a/b", .server = nobody}), HasSubstr("conversation id"));
  EXPECT_THAT(Run({.action = "list", .server = "nobody"}), HasSubstr("http://HOST:PORT"));
}

}  // namespace
}  // namespace holdfast::cli
