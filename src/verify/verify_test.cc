// A proof is worth what its failures are: sound engines pass, and each of these faults is caught
// and named.

#include "verify/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "tests/support/fixtures.h"
#include "tests/support/forwarding_backend.h"
#include "verify/ledger.h"

namespace holdfast {
namespace {

VerifyOptions OptionsFor(const std::string& fixture) {
  return {.model_path = FixturePath(fixture),
          .cpu = {.n_threads = 2},
          .sizes = VerifySizes{.prompts = {37, 70, 40, 90, 33, 66, 9, 50},
                               .reply = 12,
                               .long_prompt = 700,
                               .scalar_tokens = 10},
          .min_free_bytes = 0};
}

ProofReport Verify(const VerifyOptions& options) {
  const auto report = RunVerify(options);
  EXPECT_TRUE(report.ok()) << report.status().ToString();
  return report.ok() ? *report : ProofReport();
}

// A backend with one fault, made for every rig.
template <typename Fault, typename... Args>
VerifyOptions With(VerifyOptions options, Args... args) {
  options.make_backend = [=](const CpuBackendOptions& cpu) -> Result<std::unique_ptr<Backend>> {
    HF_ASSIGN_OR_RETURN(std::unique_ptr<Backend> inner, CpuBackend::Create(cpu));
    return std::unique_ptr<Backend>(new Fault(std::move(inner), cpu, args...));
  };
  return options;
}

void FlipLowestBit(Backend* backend, const BufferRef& at) {
  ASSERT_TRUE(backend
                  ->WithHostBytes(at.buffer,
                                  [&](std::span<std::byte> bytes) {
                                    bytes[at.offset] ^= std::byte{1};
                                    return OkStatus();
                                  })
                  .ok());
}

// One delta-net layer takes another value for a row in company: when a step decodes three or more
// conversations and nothing else, whatever the clock says.
class BatchDependentKernel : public ForwardingBackend {
 public:
  BatchDependentKernel(std::unique_ptr<Backend> inner, const CpuBackendOptions&, size_t gdn_layer)
      : ForwardingBackend(std::move(inner)), gdn_layer_(gdn_layer) {}
  Status Gdn(const GdnArgs& args) override {
    if (std::ranges::find(layers_, args.state_offset) == layers_.end()) {
      layers_.push_back(args.state_offset);
    }
    const auto n_segments = static_cast<int64_t>(args.rows.segments.size());
    const bool company = n_segments >= 3 && args.rows.n_rows == n_segments;
    if (company && layers_.size() > gdn_layer_ && layers_[gdn_layer_] == args.state_offset) {
      const int64_t value_width = args.n_value_heads * args.head_dim;
      const int64_t channels = 2 * args.n_key_heads * args.head_dim + value_width;
      BufferRef last_value = args.qkv;
      last_value.offset += (3 * channels - 1) * sizeof(float);
      FlipLowestBit(inner(), last_value);
    }
    return ForwardingBackend::Gdn(args);
  }

 private:
  const size_t gdn_layer_;
  std::vector<size_t> layers_;  // by their place in the running state
};

// Two conversations of a step get each other's delta-net states.
class SwappedSlots : public ForwardingBackend {
 public:
  SwappedSlots(std::unique_ptr<Backend> inner, const CpuBackendOptions&)
      : ForwardingBackend(std::move(inner)) {}
  Status Gdn(const GdnArgs& args) override {
    std::vector<Segment> segments(args.rows.segments.begin(), args.rows.segments.end());
    if (segments.size() >= 2) std::swap(segments[0].running, segments[1].running);
    GdnArgs swapped = args;
    swapped.rows.segments = segments;
    return ForwardingBackend::Gdn(swapped);
  }
};

// A rejected guess leaves its trace in the recurrent state.
class CommitsOneTooMany : public ForwardingBackend {
 public:
  CommitsOneTooMany(std::unique_ptr<Backend> inner, const CpuBackendOptions&)
      : ForwardingBackend(std::move(inner)) {}
  Status Commit(const CommitArgs& args) override {
    std::vector<CommitSegment> segments(args.segments.begin(), args.segments.end());
    for (CommitSegment& segment : segments) {
      segment.n_rows = std::min<int64_t>(segment.n_rows + 1, Model::kMaxWindow);
    }
    CommitArgs more = args;
    more.segments = segments;
    return ForwardingBackend::Commit(more);
  }
};

// Attention of one kernel set differs in a bit.
class OtherKernels : public ForwardingBackend {
 public:
  OtherKernels(std::unique_ptr<Backend> inner, const CpuBackendOptions& cpu)
      : ForwardingBackend(std::move(inner)), faulty_(cpu.kernels == "scalar") {}
  Status QsaAttend(const QsaAttendArgs& args) override {
    HF_RETURN_IF_ERROR(ForwardingBackend::QsaAttend(args));
    if (faulty_) FlipLowestBit(inner(), args.out);
    return OkStatus();
  }

 private:
  const bool faulty_;
};

TEST(VerifyTest, ASoundEnginePassesEveryCase) {
  const ProofReport report = Verify(OptionsFor("tinyC-mtp-bf16.gguf"));
  EXPECT_FALSE(report.difference) << report.difference->Describe();
  for (const CaseReport& c : report.cases) {
    EXPECT_EQ(c.verdict, Verdict::kSame) << c.name << ": " << c.note;
    if (&c == &report.cases.front()) continue;  // the reference itself
    EXPECT_GT(c.n_rows, 0) << c.name;
    EXPECT_GT(c.n_parts, 0) << c.name;
  }
}

TEST(VerifyTest, WithoutADraftHeadGuessesAreSkipped) {
  VerifyOptions options = OptionsFor("tinyA-mix.gguf");
  options.only = "guess";
  const ProofReport report = Verify(options);
  EXPECT_FALSE(report.difference) << report.difference->Describe();
  ASSERT_EQ(report.cases.size(), 9u);  // alone, seven depths, and those that need no head
  for (size_t i = 1; i < 8; ++i) EXPECT_EQ(report.cases[i].verdict, Verdict::kSkipped);
  EXPECT_EQ(report.cases[8].verdict, Verdict::kSame);
}

TEST(VerifyTest, ABatchDependentKernelIsCaughtInItsLayer) {
  for (const size_t layer : {size_t{0}, size_t{2}}) {  // tinyA: three delta nets, then attention
    const ProofReport report =
        Verify(With<BatchDependentKernel>(OptionsFor("tinyA-mix.gguf"), layer));
    ASSERT_TRUE(report.difference);
    EXPECT_EQ(report.difference->case_name, "batch of 4");
    EXPECT_EQ(report.difference->layer, static_cast<int>(layer));
    EXPECT_TRUE(report.difference->part.starts_with("gdn_")) << report.difference->part;
    EXPECT_GE(report.difference->position, 9);  // a row of a reply, not of a prompt
    EXPECT_GE(report.difference->conversation, 0);
    EXPECT_EQ(report.cases.back().verdict, Verdict::kDifferent);
    EXPECT_NE(report.difference->Describe().find("position"), std::string::npos);
  }
}

TEST(VerifyTest, ASwappedSlotIsCaught) {
  const ProofReport report = Verify(With<SwappedSlots>(OptionsFor("tinyA-mix.gguf")));
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->case_name, "batch of 2");
  EXPECT_EQ(report.difference->layer, 0);
  EXPECT_EQ(report.difference->part, "gdn_state");
}

TEST(VerifyTest, ATraceOfARejectedGuessIsCaught) {
  const ProofReport report = Verify(With<CommitsOneTooMany>(OptionsFor("tinyC-mtp-bf16.gguf")));
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->case_name, "1 guess ahead");
  EXPECT_EQ(report.difference->layer, 0);
}

TEST(VerifyTest, AKernelSetThatDiffersInOneBitIsCaught) {
  VerifyOptions options = With<OtherKernels>(OptionsFor("tinyC-mtp-bf16.gguf"));
  options.only = "kernels";
  const ProofReport report = Verify(options);
  ASSERT_TRUE(report.difference);
  EXPECT_EQ(report.difference->case_name, "kernels scalar");
  // The last layer of the trunk: only the logits, and the draft head behind it, can tell.
  EXPECT_NE(report.difference->part, "token");
}

TEST(VerifyTest, ACaseThatDoesNotExistIsAnError) {
  VerifyOptions options = OptionsFor("tinyC-mtp-bf16.gguf");
  options.only = "nonsense";
  EXPECT_EQ(RunVerify(options).status().code(), StatusCode::kInvalidArgument);
}

TEST(LedgerTest, NamesTheFirstPositionAndTheLowestLayer) {
  const auto config = GgufFile::Open(FixturePath("tinyA-mix.gguf"));
  ASSERT_TRUE(config.ok());
  const auto model = ReadModelConfig(**config);
  ASSERT_TRUE(model.ok());
  const auto layout = StateLayout::Create(*model, KvFormat::kInt8);
  ASSERT_TRUE(layout.ok());
  Ledger ledger(&*layout, nullptr);
  const int last = static_cast<int>(layout->running_parts().size()) - 1;
  const auto fact = [](SubjectKind kind, int part, int64_t position, uint64_t value) {
    return Fact{.subject = {kind, StateSection::kTrunk, part},
                .prefix = HashPrefix(std::vector<int32_t>(position + 1, 7)),
                .position = position,
                .value = {value, 0}};
  };
  ledger.BeginCase("alone");
  ledger.SetConversation(3);
  for (const uint64_t position : {4, 9}) {
    ledger.Add(fact(SubjectKind::kLogits, 0, position, 1));
    ledger.Add(fact(SubjectKind::kRunning, last, position, 1));
    ledger.Add(fact(SubjectKind::kRunning, 0, position, 1));
  }
  EXPECT_EQ(ledger.counts().n_new, 6);
  ledger.BeginCase("together");
  ledger.Add(fact(SubjectKind::kLogits, 0, 4, 1));
  ledger.Add(fact(SubjectKind::kRunning, last, 4, 2));
  EXPECT_EQ(ledger.counts().n_rows, 1);
  EXPECT_EQ(ledger.counts().n_parts, 1);
  ASSERT_TRUE(ledger.difference());
  EXPECT_EQ(ledger.difference()->layer, layout->running_parts()[last].layer);
  ledger.Add(fact(SubjectKind::kLogits, 0, 9, 2));
  ledger.Add(fact(SubjectKind::kRunning, 0, 9, 2));
  const Difference difference = *ledger.difference();
  EXPECT_EQ(difference.case_name, "together");
  EXPECT_EQ(difference.conversation, 3);
  EXPECT_EQ(difference.position, 9);  // of the row; a running state differs from somewhere on
  EXPECT_EQ(difference.layer, layout->running_parts()[0].layer);
  ledger.BeginCase("next");
  EXPECT_FALSE(ledger.difference());
}

}  // namespace
}  // namespace holdfast
