// Session files out of a running server and into it, over the routes themselves.

#include "server/session_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "base/temp_folder.h"
#include "tests/support/random_tokens.h"
#include "tests/support/served_engine.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

class SessionApiTest : public ::testing::Test {
 protected:
  void Start(const std::string& store, KvFormat kv_format = KvFormat::kInt8, int64_t ctx = 4096) {
    served_.reset();
    served_.emplace(EngineOptions{.ctx = ctx,
                                  .kv_format = kv_format,
                                  .store_dir = store.empty() ? "" : dir_.path() + "/" + store,
                                  .autosave = Autosave::kOff});
  }
  std::pair<int, Json> Call(const std::string& method, const std::string& path,
                            const std::string& body = "", const std::string& query = "") {
    return served_->Call(method, path, body, query);
  }
  std::pair<int, Json> Import(const std::string& file, const std::string& query = "") {
    return Call("POST", "/v1/conversations/import", file, query);
  }
  static std::string ErrorOf(const Json& body) { return body["error"]["message"]; }
  // A conversation of `prompt` and a few more tokens; its id.
  std::string Talk(const std::vector<TokenId>& prompt) {
    const std::string id = Ask(served_->engine(), prompt, 5, {100, 296})->Wait().conversation;
    served_->service()->slots->Use(id);  // as a request of a client does
    return id;
  }
  std::string Exported(const std::string& id) {
    const HttpResponse response = served_->Send("GET", "/v1/conversations/" + id + "/export");
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "application/octet-stream");
    return response.body;
  }

  const TempFolder dir_ = TempFolder::Create("sessions").value();
  std::optional<ServedEngine> served_;
};

TEST_F(SessionApiTest, WhatOneServerExportsAnotherGoesOnWithWithoutReadingIt) {
  Start("one");
  const auto prompt = RandomTokens(71, 300);
  auto first = Ask(served_->engine(), prompt, 5, {100, 296});
  const std::string id = first->Wait().conversation;
  // Nothing was saved yet: the export sees to it.
  EXPECT_EQ(Call("GET", "/v1/conversations").second["data"][0]["durable_tokens"], 0);
  const std::string file = Exported(id);
  EXPECT_EQ(Call("GET", "/v1/conversations").second["data"][0]["durable_tokens"], 304);
  EXPECT_EQ(served_->Send("HEAD", "/v1/conversations/" + id + "/export").body, "");

  std::vector<TokenId> longer = prompt;
  for (const TokenId token : first->tokens()) longer.push_back(token);
  longer.push_back(17);
  auto here = Ask(served_->engine(), longer, 8);
  EXPECT_EQ(here->Wait().reuse.tokens_reused, 304);

  Start("two");
  const auto [status, report] = Import(file);
  ASSERT_EQ(status, 200) << report;
  EXPECT_EQ(report["id"], id);
  EXPECT_EQ(report["n_tokens"], 305);
  EXPECT_EQ(report["n_computed"], 304);
  EXPECT_TRUE(report["notes"].empty()) << report;
  auto there = Ask(served_->engine(), longer, 8);
  EXPECT_EQ(there->Wait().reuse.source, ReuseSource::kDisk);
  EXPECT_EQ(there->Wait().reuse.tokens_reused, 304);
  EXPECT_EQ(there->tokens(), here->tokens());
}

TEST_F(SessionApiTest, AnImportStandsBesideWhatIsThere) {
  Start("one");
  const std::string id = Talk(RandomTokens(72, 300));
  const std::string file = Exported(id);
  const auto same = Import(file);
  EXPECT_EQ(same.first, 200);
  EXPECT_EQ(same.second["id"], id);
  EXPECT_EQ(same.second["bytes_written"], 0);
  EXPECT_EQ(Import(file, "id=" + id).first, 409);
  EXPECT_EQ(Import(file, "id=copy").second["id"], "copy");
  EXPECT_EQ(Import(file, "id=../x").first, 400);

  // A conversation that only RAM knows keeps its id.
  Start("two");
  auto other = std::make_shared<Reply>();
  ASSERT_TRUE(
      served_->engine()
          ->Submit({.prompt = RandomTokens(73, 20), .max_tokens = 3, .conversation = id}, other)
          .ok());
  EXPECT_EQ(other->Wait().conversation, id);
  const auto beside = Import(file);
  EXPECT_EQ(beside.first, 200) << beside.second;
  EXPECT_TRUE(beside.second["id"].get<std::string>().starts_with(id + "-")) << beside.second;
}

TEST_F(SessionApiTest, EachRefusalSaysWhy) {
  Start("one");
  const std::string file = Exported(Talk(RandomTokens(74, 300)));
  const auto refused = [&](const std::string& bytes, int status) {
    const auto reply = Import(bytes);
    EXPECT_EQ(reply.first, status) << reply.second;
    const std::string message = ErrorOf(reply.second);
    EXPECT_EQ(message.find(dir_.path()), std::string::npos) << message;
    return message;
  };
  Start("two");
  EXPECT_THAT(refused("", 400), HasSubstr("is not a holdfast session file"));
  EXPECT_THAT(refused("{}", 400), HasSubstr("is not a holdfast session file"));
  for (const size_t n : {size_t{8}, size_t{63}, size_t{100}, size_t{1000}, file.size() - 1}) {
    EXPECT_THAT(refused(file.substr(0, n), 400), HasSubstr("truncated")) << n;
  }
  EXPECT_THAT(refused(file + "x", 400), HasSubstr("its manifest says"));
  std::string changed = file;
  changed[8] = 2;
  EXPECT_THAT(refused(changed, 400), HasSubstr("version 2, this holdfast reads up to 1"));
  changed = file;
  changed[file.size() / 2] ^= 4;
  EXPECT_THAT(refused(changed, 400), HasSubstr("checksum"));
  EXPECT_EQ(Call("GET", "/v1/conversations").second["data"].size(), 0u);

  Start("three", KvFormat::kF16);
  EXPECT_THAT(refused(file, 409), HasSubstr("session of another KV format: int8"));
  Start("four", KvFormat::kInt8, 256);
  EXPECT_THAT(refused(file, 400), HasSubstr("session of 305 tokens is larger than this server's"));
  Start("");
  EXPECT_THAT(refused(file, 409), HasSubstr("--store off"));
  EXPECT_THAT(ErrorOf(Call("GET", "/v1/conversations/x/export").second), HasSubstr("--store off"));
}

TEST_F(SessionApiTest, SlotsAreSavedRestoredAndErasedAsInLlamaCpp) {
  Start("one");
  const auto prompt = RandomTokens(75, 300);
  const std::string id = Talk(prompt);
  const Json slots = Call("GET", "/slots").second;
  ASSERT_EQ(slots.size(), 4u);
  EXPECT_EQ(slots[0]["conversation"], id);
  EXPECT_EQ(slots[0]["is_processing"], false);
  EXPECT_TRUE(slots[1]["conversation"].is_null());

  const auto saved = Call("POST", "/slots/0", R"({"filename":"talk.bin"})", "action=save");
  ASSERT_EQ(saved.first, 200) << saved.second;
  EXPECT_EQ(saved.second["id_slot"], 0);
  EXPECT_EQ(saved.second["filename"], "talk.bin");
  EXPECT_EQ(saved.second["n_saved"], 304);
  EXPECT_GT(saved.second["n_written"], 100'000);
  EXPECT_GT(saved.second["timings"]["save_ms"], 0);

  const auto erased = Call("POST", "/slots/0", "", "action=erase");
  ASSERT_EQ(erased.first, 200) << erased.second;
  EXPECT_EQ(erased.second["n_erased"], 304);
  EXPECT_EQ(Call("GET", "/v1/conversations").second["data"].size(), 0u);
  EXPECT_EQ(Call("POST", "/slots/0", "", "action=erase").second["n_erased"], 0);
  EXPECT_EQ(Ask(served_->engine(), prompt, 1)->Wait().reuse.tokens_reused, 0);

  const auto restored = Call("POST", "/slots/2", R"({"filename":"talk.bin"})", "action=restore");
  ASSERT_EQ(restored.first, 200) << restored.second;
  EXPECT_EQ(restored.second["id_slot"], 2);
  EXPECT_EQ(restored.second["n_restored"], 304);
  EXPECT_EQ(restored.second["n_read"], saved.second["n_written"]);
  EXPECT_GT(restored.second["timings"]["restore_ms"], 0);
  EXPECT_EQ(Call("GET", "/slots").second[2]["conversation"], id);
}

TEST_F(SessionApiTest, SlotsAndFilesThatCannotBeMeantAreRefused) {
  Start("one");
  Talk(RandomTokens(76, 300));
  const auto refused = [&](const std::string& path, const Json& body, const std::string& query) {
    const auto reply = Call("POST", path, ToText(body), query);
    EXPECT_EQ(reply.first, 400) << path << " " << body << " " << query << ": " << reply.second;
    return ErrorOf(reply.second);
  };
  for (const char* name : {"../talk", "/tmp/talk", "a/b", "..", ".hidden", "", "a\\b", "a b"}) {
    EXPECT_THAT(refused("/slots/0", {{"filename", name}}, "action=save"),
                HasSubstr("names, not paths"));
    EXPECT_THAT(refused("/slots/0", {{"filename", name}}, "action=restore"),
                HasSubstr("names, not paths"));
  }
  EXPECT_THAT(refused("/slots/0", {{"filename", 7}}, "action=save"), HasSubstr("filename is 7"));
  EXPECT_THAT(refused("/slots/0", Json::object(), "action=save"), HasSubstr("names, not paths"));
  EXPECT_THAT(refused("/slots/3", {{"filename", "x"}}, "action=save"),
              HasSubstr("slot 3 has no conversation"));
  EXPECT_THAT(refused("/slots/4", {{"filename", "x"}}, "action=save"), HasSubstr("0 to 3"));
  EXPECT_THAT(refused("/slots/-1", {{"filename", "x"}}, "action=save"), HasSubstr("0 to 3"));
  EXPECT_THAT(refused("/slots/0", {{"filename", "x"}}, ""), HasSubstr("save, restore or erase"));
  EXPECT_THAT(refused("/slots/0", {{"filename", "x"}}, "action=load"),
              HasSubstr("save, restore or erase"));
  const auto none = Call("POST", "/slots/0", R"({"filename":"none"})", "action=restore");
  EXPECT_EQ(none.first, 404);
  EXPECT_EQ(ErrorOf(none.second), "the store has no session file none");

  EXPECT_EQ(Call("POST", "/slots/0", R"({"filename":"x"})", "action=save").first, 200);
  const std::string path = dir_.path() + "/one/exports/x";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const std::string message = refused("/slots/0", {{"filename", "x"}}, "action=restore");
  EXPECT_THAT(message, HasSubstr("x: truncated"));
  EXPECT_EQ(message.find(dir_.path()), std::string::npos) << message;

  Start("");
  EXPECT_EQ(Call("POST", "/slots/0", R"({"filename":"x"})", "action=save").first, 409);
}

TEST_F(SessionApiTest, AConversationIsSavedUnderANameAndRestoredFromIt) {
  Start("one");
  const auto prompt = RandomTokens(78, 300);
  const std::string id = Talk(prompt);
  EXPECT_EQ(Call("POST", "/v1/conversations/" + id + "/save", "{}").first, 200);
  const auto saved = Call("POST", "/v1/conversations/" + id + "/save", R"({"filename":"a.hfs"})");
  ASSERT_EQ(saved.first, 200) << saved.second;
  EXPECT_EQ(saved.second["n_tokens"], 304);
  EXPECT_EQ(Call("DELETE", "/v1/conversations/" + id).first, 200);
  const auto restored = Call("POST", "/v1/conversations/restore", R"({"filename":"a.hfs"})");
  ASSERT_EQ(restored.first, 200) << restored.second;
  EXPECT_EQ(restored.second["id"], id);
  EXPECT_EQ(restored.second["bytes"], saved.second["bytes"]);
  EXPECT_EQ(Ask(served_->engine(), prompt, 1)->Wait().reuse.source, ReuseSource::kDisk);
  for (const char* body : {R"({"filename":"../a"})", "{}", "[]", "", R"({"filename":1})"}) {
    EXPECT_EQ(Call("POST", "/v1/conversations/restore", body).first, 400) << body;
  }
  EXPECT_EQ(Call("POST", "/v1/conversations/" + id + "/save", R"({"filename":"/a"})").first, 400);
  EXPECT_EQ(Call("POST", "/v1/conversations/none/save", R"({"filename":"b"})").first, 404);
  Start("");
  EXPECT_EQ(Call("POST", "/v1/conversations/restore", R"({"filename":"a.hfs"})").first, 409);
}

TEST_F(SessionApiTest, TheStoreIsShownMeasuredCollectedAndVerified) {
  Start("one");
  const std::string id = Talk(RandomTokens(77, 300));
  EXPECT_EQ(Call("GET", "/v1/conversations/" + id).first, 404) << "nothing was saved yet";
  ASSERT_EQ(Call("POST", "/v1/conversations/" + id + "/save").first, 200);
  const Json shown = Call("GET", "/v1/conversations/" + id).second;
  EXPECT_EQ(shown["n_tokens"], 305);
  EXPECT_EQ(shown["durable_tokens"], 304);
  EXPECT_EQ(shown["states"].back()["kind"], "live_end");
  const Json usage = Call("GET", "/v1/store").second;
  EXPECT_EQ(usage["n_conversations"], 1);
  EXPECT_GT(usage["live_bytes"], 100'000);
  const Json verified = Call("POST", "/v1/store/verify").second;
  EXPECT_GT(verified["parts_checked"], 3);
  EXPECT_EQ(verified["problems"].size(), 0u);
  EXPECT_EQ(
      Call("POST", "/v1/conversations/" + id + "/fork", R"({"id":"at","position":100})").first,
      200);
  EXPECT_EQ(Call("GET", "/v1/conversations/at").second["fork_position"], 100);
  EXPECT_EQ(Call("DELETE", "/v1/conversations/" + id).first, 200);
  EXPECT_EQ(Call("DELETE", "/v1/conversations/at").first, 200);
  EXPECT_GT(Call("POST", "/v1/store/gc").second["bytes_freed"], 100'000);
  Start("");
  EXPECT_EQ(Call("GET", "/v1/store").first, 409);
}

TEST_F(SessionApiTest, WhatIsNotThereCannotBeExported) {
  Start("one");
  const auto reply = Call("GET", "/v1/conversations/none/export");
  EXPECT_EQ(reply.first, 404);
  EXPECT_THAT(ErrorOf(reply.second), HasSubstr("none"));
  EXPECT_EQ(served_->Send("HEAD", "/v1/conversations/none/export").status, 404);
}

}  // namespace
}  // namespace holdfast
