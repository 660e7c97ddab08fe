#include "state/index.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <set>

namespace holdfast {
namespace {

std::shared_ptr<TokenSequence> Tokens(const std::vector<TokenId>& ids) {
  return std::make_shared<TokenSequence>(TokenView(ids));
}

ResumePoint Live(int64_t position) { return {position, PointKind::kLiveEnd}; }
ResumePoint Kept(int64_t position) { return {position, PointKind::kCheckpoint}; }

TEST(StateIndexTest, FindsNothingInAnEmptyTree) {
  StateIndex index;
  const IndexMatch match = index.Find(std::vector<TokenId>{1, 2, 3});
  EXPECT_EQ(match.owner, 0u);
  EXPECT_EQ(match.common, 0);
  EXPECT_EQ(match.common_owner, 0u);
}

TEST(StateIndexTest, LeavesTheLastTokenToBeRead) {
  StateIndex index;
  index.Add(1, Tokens({1, 2, 3, 4}));
  index.AddPoint(1, Live(4));
  index.AddPoint(1, Kept(2));
  EXPECT_EQ(index.Find(std::vector<TokenId>{1, 2, 3, 4, 5}).point.position, 4);
  const IndexMatch same = index.Find(std::vector<TokenId>{1, 2, 3, 4});
  EXPECT_EQ(same.point.position, 2);
  EXPECT_EQ(same.common, 4);
  EXPECT_FALSE(same.differs);
  EXPECT_EQ(index.Find(std::vector<TokenId>{1, 2}).owner, 0u);
}

TEST(StateIndexTest, TellsWhereAndHowThePromptLeavesWhatIsKept) {
  StateIndex index;
  index.Add(1, Tokens({1, 2, 3, 4, 5}));
  index.AddPoint(1, Kept(2));
  index.Add(2, Tokens({1, 2, 3, 9, 9}));
  index.Touch(2, 7);
  index.Touch(1, 8);
  const IndexMatch match = index.Find(std::vector<TokenId>{1, 2, 3, 6, 5});
  EXPECT_EQ(match.point.position, 2);
  EXPECT_EQ(match.common, 3);
  EXPECT_EQ(match.common_owner, 1u);  // the newer of the two
  EXPECT_TRUE(match.differs);
  EXPECT_EQ(match.expected, (TokenKey{4, 0}));
  EXPECT_EQ(match.found, (TokenKey{6, 0}));
}

TEST(StateIndexTest, TiesGoToRamThenLiveEndThenBoundThenNewest) {
  const std::vector<TokenId> ids = {1, 2, 3};
  const std::vector<TokenId> prompt = {1, 2, 3, 4};
  StateIndex index;
  const auto best = [&] { return index.Find(prompt).owner; };
  for (OwnerId owner : {1, 2, 3, 4, 5}) index.Add(owner, Tokens(ids));
  index.AddPoint(1, {3, PointKind::kLiveEnd, Tier::kDisk});
  EXPECT_EQ(best(), 1u);
  index.AddPoint(2, Kept(3));
  EXPECT_EQ(best(), 2u);
  index.AddPoint(3, Live(3));
  EXPECT_EQ(best(), 3u);
  index.AddPoint(4, Live(3));
  index.Touch(4, 9);
  EXPECT_EQ(best(), 4u);
  index.AddPoint(5, Live(3));
  index.Touch(5, 1);
  index.SetBound(5, true);
  EXPECT_EQ(best(), 5u);
  index.SetBound(5, false);
  EXPECT_EQ(best(), 4u);
}

TEST(StateIndexTest, ImagesWithEqualIdsAndOtherContentDiffer) {
  StateIndex index;
  const std::vector<TokenId> ids = {1, 2, 2, 3};
  const std::vector<ContentHash> cat = {{1, 100}, {2, 101}};
  const std::vector<ContentHash> dog = {{1, 100}, {2, 102}};
  index.Add(1, std::make_shared<TokenSequence>(TokenView(ids, cat)));
  index.AddPoint(1, Kept(2));
  index.AddPoint(1, Kept(3));
  EXPECT_EQ(index.Find({ids, cat}).point.position, 3);
  const IndexMatch match = index.Find({ids, dog});
  EXPECT_EQ(match.point.position, 2);
  EXPECT_EQ(match.expected, (TokenKey{2, 101}));
  EXPECT_EQ(match.found, (TokenKey{2, 102}));
}

// The same answers from a list that is searched token by token.
struct Reference {
  struct Entry {
    std::vector<TokenId> ids;
    std::vector<ResumePoint> points;
    bool bound = false;
    uint64_t last_used = 0;
  };
  std::map<OwnerId, Entry> entries;

  static int64_t Common(const std::vector<TokenId>& a, const std::vector<TokenId>& b) {
    int64_t n = 0;
    while (n < std::ssize(a) && n < std::ssize(b) && a[n] == b[n]) ++n;
    return n;
  }

  IndexMatch Find(const std::vector<TokenId>& prompt) const {
    IndexMatch match;
    using Rank = std::tuple<int64_t, int, int, bool, uint64_t, OwnerId>;
    Rank best{};
    for (const auto& [owner, e] : entries) {
      const int64_t common = Common(e.ids, prompt);
      for (const ResumePoint& p : e.points) {
        if (p.position > common || p.position >= std::ssize(prompt)) continue;
        const Rank rank{
            p.position, -static_cast<int>(p.tier), -static_cast<int>(p.kind), e.bound, e.last_used,
            ~owner};
        if (match.owner == 0 || rank > best) {
          best = rank;
          match.owner = owner;
          match.point = p;
        }
      }
      if (common == 0) continue;
      const bool newer =
          match.common_owner == 0 || common > match.common ||
          (common == match.common && e.last_used > entries.at(match.common_owner).last_used);
      if (newer) {
        match.common = common;
        match.common_owner = owner;
      }
    }
    if (match.common_owner != 0) {
      const auto& kept = entries.at(match.common_owner).ids;
      match.differs = match.common < std::ssize(prompt) && match.common < std::ssize(kept);
      if (match.differs) {
        match.expected = {kept[match.common], 0};
        match.found = {prompt[match.common], 0};
      }
    }
    return match;
  }
};

class IndexPropertyTest : public ::testing::TestWithParam<int> {
 protected:
  using Ids = std::vector<TokenId>;
  int Draw(int n) { return static_cast<int>(random_() % n); }

  // Few token values and copied beginnings, so that runs part in every possible place.
  Ids RandomIds() {
    Ids ids;
    if (!reference_.entries.empty() && Draw(4) != 0) {
      auto it = reference_.entries.begin();
      std::advance(it, Draw(static_cast<int>(reference_.entries.size())));
      ids = it->second.ids;
      ids.resize(Draw(static_cast<int>(ids.size()) + 1));
    }
    for (int n = Draw(12); n > 0; --n) ids.push_back(Draw(3));
    return ids;
  }

  OwnerId AnyOwner() {
    auto it = reference_.entries.begin();
    std::advance(it, Draw(static_cast<int>(reference_.entries.size())));
    return it->first;
  }

  void Add() {
    const OwnerId owner = next_++;
    const Ids ids = RandomIds();
    sequences_[owner] = Tokens(ids);
    index_.Add(owner, sequences_[owner]);
    reference_.entries[owner] = {.ids = ids};
    Touch(owner);
  }
  void Touch(OwnerId owner) {
    reference_.entries[owner].last_used = ++clock_;
    index_.Touch(owner, clock_);
  }
  void Change(OwnerId owner) {
    auto& entry = reference_.entries[owner];
    switch (Draw(7)) {
      case 0:
        index_.Remove(owner);
        reference_.entries.erase(owner);
        sequences_.erase(owner);
        return;
      case 1:
        for (int n = Draw(5); n > 0; --n) {
          entry.ids.push_back(Draw(3));
          sequences_[owner]->Append({entry.ids.back(), 0});
        }
        index_.Extend(owner);
        return;
      case 2:
        entry.bound = !entry.bound;
        index_.SetBound(owner, entry.bound);
        return;
      case 3:
        Touch(owner);
        return;
      case 4:
        if (entry.points.empty()) return;
        {
          const size_t i = Draw(static_cast<int>(entry.points.size()));
          const ResumePoint p = entry.points[i];
          index_.RemovePoint(owner, p.position, p.kind, p.tier);
          entry.points.erase(entry.points.begin() + static_cast<int64_t>(i));
        }
        return;
      default:
        AddPoint(owner);
    }
  }
  void AddPoint(OwnerId owner) {
    auto& entry = reference_.entries[owner];
    if (entry.ids.empty()) return;
    const ResumePoint p{1 + Draw(static_cast<int>(entry.ids.size())),
                        static_cast<PointKind>(Draw(2)), static_cast<Tier>(Draw(2)), random_()};
    index_.AddPoint(owner, p);
    std::erase_if(entry.points, [&](const ResumePoint& q) {
      return q.position == p.position && q.kind == p.kind && q.tier == p.tier;
    });
    entry.points.push_back(p);
  }

  void CheckFind() {
    const Ids prompt = RandomIds();
    const IndexMatch want = reference_.Find(prompt);
    const IndexMatch got = index_.Find(prompt);
    ASSERT_EQ(got.owner, want.owner);
    ASSERT_EQ(got.point.position, want.point.position);
    ASSERT_EQ(got.point.kind, want.point.kind);
    ASSERT_EQ(got.point.tier, want.point.tier);
    ASSERT_EQ(got.point.payload, want.point.payload);
    ASSERT_EQ(got.common, want.common);
    ASSERT_EQ(got.common_owner, want.common_owner);
    ASSERT_EQ(got.differs, want.differs);
    ASSERT_EQ(got.expected, want.expected);
    ASSERT_EQ(got.found, want.found);
  }

  void CheckRelations() {
    const OwnerId owner = AnyOwner();
    const Ids& ids = reference_.entries[owner].ids;
    const int64_t n = ids.empty() ? 0 : 1 + Draw(static_cast<int>(ids.size()));
    std::set<OwnerId> sharing, prefixes;
    int64_t deepest = 0;
    for (const auto& [other, e] : reference_.entries) {
      if (other == owner) continue;
      const int64_t common = Reference::Common(ids, e.ids);
      if (n > 0 && common >= n) sharing.insert(other);
      if (!e.ids.empty() && common == std::ssize(e.ids)) prefixes.insert(other);
      for (const ResumePoint& p : e.points) {
        if (p.tier == Tier::kRam && p.position <= std::min(common, n)) {
          deepest = std::max(deepest, p.position);
        }
      }
    }
    const auto as_set = [](const std::vector<OwnerId>& v) {
      return std::set<OwnerId>(v.begin(), v.end());
    };
    if (n > 0) {
      EXPECT_EQ(as_set(index_.Sharing(owner, n)), sharing);
      EXPECT_EQ(index_.DeepestOther(owner, n, Tier::kRam), deepest);
    }
    EXPECT_EQ(as_set(index_.PrefixesOf(owner)), prefixes);
    std::map<OwnerId, int64_t> along, want;
    for (const auto& [other, common] : index_.Along(ids)) {
      EXPECT_TRUE(along.emplace(other, common).second) << "told twice";
    }
    for (const auto& [other, e] : reference_.entries) {
      const int64_t common = Reference::Common(ids, e.ids);
      if (common > 0) want[other] = common;
    }
    EXPECT_EQ(along, want);
  }

  std::mt19937_64 random_{static_cast<uint64_t>(GetParam())};
  StateIndex index_;
  Reference reference_;
  std::map<OwnerId, std::shared_ptr<TokenSequence>> sequences_;
  OwnerId next_ = 1;
  uint64_t clock_ = 0;
};

TEST_P(IndexPropertyTest, AnswersAsAListThatIsSearchedTokenByToken) {
  for (int step = 0; step < 1200; ++step) {
    if (reference_.entries.empty() || (Draw(5) == 0 && reference_.entries.size() < 24)) Add();
    Change(AnyOwner());
    ASSERT_TRUE(index_.Consistent()) << "step " << step;
    CheckFind();
    if (HasFatalFailure()) FAIL() << "step " << step;
    if (!reference_.entries.empty()) CheckRelations();
    if (HasFailure()) FAIL() << "step " << step;
  }
  while (!reference_.entries.empty()) {
    const OwnerId owner = AnyOwner();
    index_.Remove(owner);
    reference_.entries.erase(owner);
    ASSERT_TRUE(index_.Consistent());
  }
  EXPECT_EQ(index_.n_nodes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, IndexPropertyTest, ::testing::Range(1, 6));

// 500 conversations of 260K tokens in 20 families, 40 points each: a node per branch or point and
// not per token, and a search that costs little more than comparing the prompt once.
TEST(StateIndexTest, HoldsFiveHundredLongConversations) {
  constexpr int64_t kTokens = 260'000;
  std::mt19937 random(1);
  StateIndex index;
  std::vector<std::shared_ptr<TokenSequence>> kept;
  std::vector<TokenId> family(kTokens);
  for (int i = 0; i < 500; ++i) {
    if (i % 25 == 0) {
      for (TokenId& id : family) id = static_cast<TokenId>(random() % 150'000);
    }
    std::vector<TokenId> ids = family;
    for (int64_t p = 1000 + 9000 * (i % 25); p < kTokens; ++p) ids[p] ^= i + 1;
    // Every family's sequences at full length would take half a GiB here and tell nothing new.
    if (i % 5 != 0) ids.resize(20'000);
    kept.push_back(Tokens(ids));
    index.Add(i + 1, kept.back());
    for (int k = 1; k <= 40; ++k) index.AddPoint(i + 1, Kept(std::ssize(ids) * k / 40));
  }
  EXPECT_LE(index.n_nodes(), 500u * 42);
  std::vector<TokenId> prompt(kept[495]->view().ids.begin(), kept[495]->view().ids.end());
  prompt.push_back(1);
  const auto begin = std::chrono::steady_clock::now();
  const IndexMatch match = index.Find(prompt);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(match.owner, 496u);
  EXPECT_EQ(match.point.position, kTokens);
  EXPECT_LT(took.count(), 0.25);  // 0.3 ms optimised on the development machine
}

}  // namespace
}  // namespace holdfast
