// Every operation of the store is run with its 1st, 2nd, 3rd ... file operation failing until it
// passes untouched, in three ways: an error and go on; a power loss that forgets, keeps or tears
// what was not synced; and the same errors for want of space. After each the store must hold the
// state before the operation or the one after it, and what was acknowledged must be there.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "store/part_file.h"
#include "store/store.h"
#include "store/store_testing.h"

namespace holdfast {
namespace {

using namespace holdfast::testing;  // NOLINT: the helpers of this folder's tests

// Everything that can be seen of a store but times, with all its states loaded and compared.
std::string Snapshot(Store* store, const StoreKeys& keys) {
  std::string text;
  auto list = store->List();
  if (!list.ok()) return "list: " + list.status().ToString();
  std::sort(list->begin(), list->end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (const ConversationInfo& info : *list) {
    const auto detail = store->Show(info.id);
    if (!detail.ok()) return "show: " + detail.status().ToString();
    text += fmt::format("{} '{}' pinned {} from '{}' {} durable {} bad '{}'\n tokens", info.id,
                        info.title, info.pinned, info.forked_from, info.n_tokens,
                        info.durable_tokens, !info.quarantined.empty());
    for (const int32_t token : detail->tokens) text += fmt::format(" {}", token);
    for (const StateInfo& state : detail->states) {
      text += fmt::format("\n state {} {} draft {} proof {} bad {}", state.position,
                          StateKindName(state.kind), state.has_draft, state.has_proof,
                          !state.quarantined.empty());
    }
    for (const StoredMessage& message : detail->messages) {
      text += fmt::format("\n message {} {} [{}, {})", message.role, message.content,
                          message.token_begin, message.token_end);
    }
    text += "\n";
    if (info.durable_tokens == 0) continue;
    const auto prefix = store->FindIn(info.id);
    if (!prefix.ok()) return text + "find: " + prefix.status().ToString();
    EXPECT_EQ(prefix->position, info.durable_tokens);
    ExpectLoads(store, keys, *prefix, detail->tokens);
  }
  return text;
}

struct Step {
  std::string name;
  std::function<Status(Store*)> run;
};

class StoreFaultTest : public ::testing::Test {
 protected:
  // Runs `prepare` without faults, then `steps` with every fault.
  void Sweep(const std::string& name, const std::function<void(Store*)>& prepare,
             const std::vector<Step>& steps) {
    FaultyFileSystem base;
    {
      auto store = Store::Open(TestOptions(&base), keys_);
      ASSERT_TRUE(store.ok()) << store.status().ToString();
      prepare(store->get());
    }
    ASSERT_TRUE(MakeDirs(&base, "/exports").ok());
    const std::vector<std::string> wanted = Rehearse(base, steps);
    if (HasFailure()) return;
    for (const Fault fault : {Fault::kIoError, Fault::kNoSpace, Fault::kPowerLoss}) {
      const int n_variants = fault == Fault::kPowerLoss ? 4 : 1;
      for (int variant = 0; variant < n_variants; ++variant) {
        bool happened = true;
        for (int64_t k = 1; happened; ++k) {
          SCOPED_TRACE(fmt::format("{}, fault {}, variant {}, operation {}", name,
                                   static_cast<int>(fault), variant, k));
          happened = fault == Fault::kPowerLoss ? PowerLoss(base, steps, wanted, k, variant)
                                                : Error(base, steps, wanted, k, fault);
          ++n_cases_;
          if (HasFailure()) return;
        }
      }
    }
    std::printf("[    INFO] %s: %lld fault cases\n", name.c_str(),
                static_cast<long long>(n_cases_));
    RecordProperty("fault_cases", static_cast<int>(n_cases_));
  }

  // The snapshots before and after each step, in a run without faults.
  std::vector<std::string> Rehearse(const FaultyFileSystem& base, const std::vector<Step>& steps) {
    const auto fs = base.Clone();
    auto store = Store::Open(TestOptions(fs.get()), keys_);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    if (!store.ok()) return {};
    std::vector<std::string> snapshots = {Snapshot(store->get(), keys_)};
    for (const Step& step : steps) {
      const Status status = step.run(store->get());
      EXPECT_TRUE(status.ok()) << step.name << ": " << status.ToString();
      snapshots.push_back(Snapshot(store->get(), keys_));
    }
    return snapshots;
  }

  // One operation fails, the store goes on: nothing is half done, the same step then succeeds, and
  // a power loss right after it takes nothing back.
  bool Error(const FaultyFileSystem& base, const std::vector<Step>& steps,
             const std::vector<std::string>& wanted, int64_t k, Fault fault) {
    const auto fs = base.Clone();
    fs->FailAt(k, fault);
    auto store = Store::Open(TestOptions(fs.get()), keys_);
    if (!store.ok()) {
      EXPECT_NE(store.status().code(), StatusCode::kDataLoss) << store.status().ToString();
      store = Store::Open(TestOptions(fs.get()), keys_);
      EXPECT_TRUE(store.ok()) << store.status().ToString();
      if (!store.ok()) return false;
    }
    EXPECT_TRUE((*store)->notices().empty() || fs->fault_happened());
    for (size_t i = 0; i < steps.size(); ++i) {
      const Status status = steps[i].run(store->get());
      if (status.ok()) continue;
      EXPECT_TRUE(fs->fault_happened()) << steps[i].name << ": " << status.ToString();
      EXPECT_NE(status.code(), StatusCode::kDataLoss) << status.ToString();
      EXPECT_EQ(Snapshot(store->get(), keys_), wanted[i]) << status.ToString();
      const Status again = steps[i].run(store->get());
      EXPECT_TRUE(again.ok()) << steps[i].name << " again: " << again.ToString() << "\nafter "
                              << status.ToString();
    }
    const bool happened = fs->fault_happened();
    store->reset();
    fs->Crash(CrashKeeps::kNothing, 0);
    ExpectOneOf(fs.get(), {wanted.back()});
    return happened;
  }

  // Everything fails from operation k on; then the machine comes back.
  bool PowerLoss(const FaultyFileSystem& base, const std::vector<Step>& steps,
                 const std::vector<std::string>& wanted, int64_t k, int variant) {
    const auto fs = base.Clone();
    fs->FailAt(k, Fault::kPowerLoss);
    size_t n_acknowledged = 0;
    {
      const auto store = Store::Open(TestOptions(fs.get()), keys_);
      for (const Step& step : steps) {
        if (!store.ok() || !step.run(store->get()).ok()) break;
        ++n_acknowledged;
      }
    }
    const bool happened = fs->fault_happened();
    constexpr CrashKeeps kKeeps[] = {CrashKeeps::kNothing, CrashKeeps::kEverything,
                                     CrashKeeps::kSome, CrashKeeps::kSome};
    fs->Crash(kKeeps[variant], static_cast<uint32_t>(k * 4 + variant));
    std::vector<std::string> allowed = {wanted[n_acknowledged]};
    if (n_acknowledged < steps.size()) allowed.push_back(wanted[n_acknowledged + 1]);
    ExpectOneOf(fs.get(), allowed);
    return happened;
  }

  // The store opens, holds one of these states, verifies, and can be tended and used.
  void ExpectOneOf(FaultyFileSystem* fs, const std::vector<std::string>& allowed) {
    const auto store = Store::Open(TestOptions(fs), keys_);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    for (const std::string& notice : (*store)->notices()) {
      EXPECT_EQ(notice.find("damaged"), std::string::npos) << notice;
      EXPECT_EQ(notice.find("unknown"), std::string::npos) << notice;
    }
    const std::string found = Snapshot(store->get(), keys_);
    EXPECT_NE(std::find(allowed.begin(), allowed.end(), found), allowed.end())
        << "found:\n"
        << found << "allowed:\n"
        << allowed[0] << "or\n"
        << allowed.back();
    const auto verified = (*store)->Verify();
    ASSERT_TRUE(verified.ok());
    EXPECT_TRUE(verified->problems.empty() || expect_damage_) << verified->problems[0];
    EXPECT_TRUE((*store)->Gc().ok());
    EXPECT_EQ(Snapshot(store->get(), keys_), found);
    EXPECT_TRUE((*store)->Save(Request("probe", probe_, 8, {8})).ok());
    EXPECT_EQ(StoredPosition(store->get(), keys_, probe_), 8);
  }

  Step SaveStep(const std::string& id, const std::vector<int32_t>& tokens, int64_t n_live,
                std::vector<int64_t> positions) {
    return {
        "save " + id, [=](Store* store) {
          SaveRequest request = Request(id, tokens, n_live, positions);
          request.title = fmt::format("{} at {}", id, n_live);
          request.messages = std::vector<StoredMessage>{
              {"user", fmt::format("\"{}\"", n_live), {"call_" + id}, NamedHash(id), 0, n_live}};
          return store->Save(request).status();
        }};
  }

  // Two conversations that share a beginning, and a third.
  std::function<void(Store*)> TwoConversations() {
    return [this](Store* store) {
      for (const Step& step : {SaveStep("a", a_, 10, {4, 10}), SaveStep("b", b_, 18, {8, 18}),
                               SaveStep("c", c_, 9, {9})}) {
        const Status status = step.run(store);
        ASSERT_TRUE(status.ok()) << status.ToString();
      }
    };
  }

  static std::vector<int32_t> Shared(int n, int n_shared, int seed) {
    auto tokens = Tokens(n);
    const auto other = Tokens(n, seed);
    std::copy(other.begin() + n_shared, other.end(), tokens.begin() + n_shared);
    return tokens;
  }

  const StoreKeys keys_ = TestKeys();
  const std::vector<int32_t> a_ = Tokens(30), b_ = Shared(30, 8, 3), c_ = Tokens(30, 7);
  const std::vector<int32_t> probe_ = Tokens(30, 11);
  int64_t n_cases_ = 0;
  bool expect_damage_ = false;
};

TEST_F(StoreFaultTest, OpeningAndTheFirstSaves) {
  // From an empty disk: the directory and the catalogue are made under faults too.
  FaultyFileSystem empty;
  int64_t n_cases = 0;
  for (int variant = 0; variant < 4; ++variant) {
    bool happened = true;
    for (int64_t k = 1; happened; ++k, ++n_cases) {
      SCOPED_TRACE(fmt::format("variant {}, operation {}", variant, k));
      const auto fs = empty.Clone();
      fs->FailAt(k, Fault::kPowerLoss);
      bool saved = false;
      {
        const auto store = Store::Open(TestOptions(fs.get()), keys_);
        saved = store.ok() && (*store)->Save(Request("a", a_, 10, {10})).ok();
      }
      happened = fs->fault_happened();
      constexpr CrashKeeps kKeeps[] = {CrashKeeps::kNothing, CrashKeeps::kEverything,
                                       CrashKeeps::kSome, CrashKeeps::kSome};
      fs->Crash(kKeeps[variant], static_cast<uint32_t>(k));
      const auto store = Store::Open(TestOptions(fs.get()), keys_);
      ASSERT_TRUE(store.ok()) << store.status().ToString();
      const int64_t position = StoredPosition(store->get(), keys_, a_);
      ASSERT_TRUE(position == 10 || (position == 0 && !saved)) << position;
      ASSERT_TRUE((*store)->Save(Request("a", a_, 10, {10})).ok());
    }
  }
  std::printf("[    INFO] opening: %lld fault cases\n", static_cast<long long>(n_cases));
}

TEST_F(StoreFaultTest, Saves) {
  Sweep("saves", TwoConversations(),
        {SaveStep("a", a_, 19, {10, 19}), SaveStep("d", Shared(30, 17, 5), 25, {16, 25}),
         SaveStep("a", a_, 26, {26})});
}

TEST_F(StoreFaultTest, EditsAndRepeats) {
  Sweep("edits", TwoConversations(),
        {SaveStep("b", Shared(30, 13, 4), 15, {15}), SaveStep("b", Shared(30, 13, 4), 15, {15}),
         SaveStep("c", a_, 10, {10})});
}

TEST_F(StoreFaultTest, ForkPinTitleAndRemove) {
  Sweep("fork, pin, remove", TwoConversations(),
        {{"fork", [](Store* store) { return store->Fork("b", "e", 10); }},
         {"pin", [](Store* store) { return store->Pin("e", true); }},
         {"title", [](Store* store) { return store->SetTitle("e", "fork"); }},
         {"remove", [](Store* store) { return store->Remove("b"); }}});
}

TEST_F(StoreFaultTest, GarbageCollection) {
  const auto prepare = [this](Store* store) {
    TwoConversations()(store);
    // One segment becomes empty, one sparse.
    ASSERT_TRUE(SaveStep("d", Tokens(30, 9), 29, {4, 29}).run(store).ok());
    ASSERT_TRUE(store->Fork("d", "e", 4).ok());
    ASSERT_TRUE(store->Remove("d").ok());
    ASSERT_TRUE(store->Remove("c").ok());
  };
  Sweep("gc", prepare,
        {{"gc", [](Store* store) { return store->Gc().status(); }},
         SaveStep("a", a_, 19, {19}),
         {"gc again", [](Store* store) { return store->Gc().status(); }}});
}

TEST_F(StoreFaultTest, LoadsAndVerify) {
  Sweep("load, verify", TwoConversations(),
        {{"load",
          [this](Store* store) -> Status {
            HF_ASSIGN_OR_RETURN(const auto found, store->Find(b_));
            if (!found.prefix) return NotFoundError("nothing found");
            Loaded loaded;
            return store->Load(*found.prefix, {loaded.Sink(keys_)}).status();
          }},
         {"verify", [](Store* store) { return store->Verify().status(); }},
         {"du", [](Store* store) { return store->Du().status(); }}});
}

TEST_F(StoreFaultTest, ExportAndImport) {
  Sweep("export, import", TwoConversations(),
        {{"export", [](Store* store) { return store->Export("b", "/exports/b"); }},
         {"import",
          [](Store* store) { return store->Import("/exports/b", {"imported"}).status(); }}});
}

TEST_F(StoreFaultTest, GcAfterAFailedCommitTakesNothingThatAKillBringsBack) {
  FaultyFileSystem base;
  {
    auto store = Store::Open(TestOptions(&base), keys_);
    ASSERT_TRUE(store.ok());
    TwoConversations()(store->get());
  }
  const std::vector<Step> save = {SaveStep("a", a_, 19, {19})};
  const std::vector<std::string> wanted = Rehearse(base, save);
  bool happened = true;
  for (int64_t k = 1; happened; ++k) {
    SCOPED_TRACE(k);
    const auto fs = base.Clone();
    bool saved = false;
    {
      auto store = Store::Open(TestOptions(fs.get()), keys_);
      ASSERT_TRUE(store.ok());
      fs->FailAt(k, Fault::kIoError);
      saved = save[0].run(store->get()).ok();
      happened = fs->fault_happened();
      fs->FailAt(0, Fault::kIoError);
      // What the log holds of a commit that failed may still be read by the next process.
      ASSERT_TRUE((*store)->Gc().ok());
      fs->FailAt(1, Fault::kPowerLoss);
    }
    fs->Crash(CrashKeeps::kPageCache, 0);
    ExpectOneOf(fs.get(), saved ? std::vector{wanted[1]} : wanted);
    if (HasFailure()) return;
  }
}

TEST_F(StoreFaultTest, QuarantineAndFullIdentity) {
  expect_damage_ = true;
  Sweep("quarantine", TwoConversations(),
        {{"full identity",
          [](Store* store) { return store->SetFullIdentity(NamedHash("full")).status(); }},
         {"quarantine", [](Store* store) -> Status {
            auto prefix = store->FindIn("c");
            // Out of use already: it was done before the error was reported.
            if (!prefix.ok() && prefix.status().code() == StatusCode::kNotFound) return OkStatus();
            if (!prefix.ok()) return prefix.status();
            return store->Quarantine(*prefix, "row differs");
          }}});
}

TEST_F(StoreFaultTest, AnExportedFileIsWholeOrAbsent) {
  FaultyFileSystem base;
  {
    auto store = Store::Open(TestOptions(&base), keys_);
    ASSERT_TRUE(store.ok());
    TwoConversations()(store->get());
    ASSERT_TRUE(MakeDirs(&base, "/exports").ok());
  }
  bool happened = true;
  for (int64_t k = 1; happened; ++k) {
    for (const CrashKeeps keeps : {CrashKeeps::kNothing, CrashKeeps::kSome}) {
      SCOPED_TRACE(k);
      const auto fs = base.Clone();
      bool exported = false;
      {
        auto store = Store::Open(TestOptions(fs.get()), keys_);
        ASSERT_TRUE(store.ok());
        fs->FailAt(k, Fault::kPowerLoss);
        exported = (*store)->Export("b", "/exports/b").ok();
        happened = fs->fault_happened();
      }
      fs->Crash(keeps, static_cast<uint32_t>(k));
      const bool there = *fs->Exists("/exports/b");
      ASSERT_TRUE(there || !exported);
      if (!there) continue;
      auto store = Store::Open(TestOptions(fs.get()), keys_);
      ASSERT_TRUE(store.ok());
      const auto imported = (*store)->Import("/exports/b", {"imported"});
      ASSERT_TRUE(imported.ok()) << imported.status().ToString();
    }
  }
}

}  // namespace
}  // namespace holdfast
