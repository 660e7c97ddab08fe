#include "ops/profile/profiling_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace holdfast {
namespace {

uint64_t BytesOf(const Weight* weight) {
  if (weight == nullptr || !weight->view().exists()) return 0;
  const WeightView& view = weight->view();
  return static_cast<uint64_t>(view.n_mats) * view.n_rows * view.row_bytes;
}

// Of a product with one row.
double OpsOf(const Weight* weight) {
  if (weight == nullptr || !weight->view().exists()) return 0.0;
  return 2.0 * static_cast<double>(weight->view().n_rows) * weight->view().n_cols;
}

uint64_t BytesOfRows(const Weight* weight, size_t n_rows) {
  return weight == nullptr ? 0 : n_rows * static_cast<uint64_t>(weight->view().row_bytes);
}

}  // namespace

ProfilingBackend::Label ProfilingBackend::MakeLabel(std::string_view tensor_name) {
  Label label;
  if (tensor_name.starts_with("blk.")) {
    tensor_name.remove_prefix(4);
    const auto [end, error] =
        std::from_chars(tensor_name.data(), tensor_name.data() + tensor_name.size(), label.layer);
    if (error == std::errc()) tensor_name.remove_prefix(end - tensor_name.data());
    if (tensor_name.starts_with('.')) tensor_name.remove_prefix(1);
  }
  if (tensor_name.ends_with(".weight")) tensor_name.remove_suffix(7);
  label.text = tensor_name;
  return label;
}

const ProfilingBackend::Label& ProfilingBackend::LabelOf(const Weight* weight) {
  const auto [found, is_new] = labels_.try_emplace(weight);
  if (is_new && weight != nullptr) found->second = MakeLabel(weight->view().name);
  return found->second;
}

template <typename Call>
Status ProfilingBackend::Time(OpPoint op, const Call& call) {
  if (op.layer >= 0) layer_ = op.layer;
  op.layer = layer_;
  const auto begin = Profile::Clock::now();
  Status status = call();
  if (status.ok()) status = inner_->Synchronize();
  profile_->AddOp(op, begin, Profile::Clock::now());
  return status;
}

Status ProfilingBackend::Upload(BufferRef dst, std::span<const std::byte> src) {
  return Time({.name = "upload"}, [&] { return inner_->Upload(dst, src); });
}

Status ProfilingBackend::Download(BufferRef src, std::span<std::byte> dst) {
  return Time({.name = "download"}, [&] { return inner_->Download(src, dst); });
}

Status ProfilingBackend::Copy(const CopyArgs& args) {
  return Time({.name = "copy"}, [&] { return inner_->Copy(args); });
}

Status ProfilingBackend::GatherRows(const GatherRowsArgs& args) {
  layer_ = -1;
  return Time({.name = "gather rows"}, [&] { return inner_->GatherRows(args); });
}

Status ProfilingBackend::Embed(const EmbedArgs& args) {
  const int64_t n_rows = static_cast<int64_t>(args.tokens.size());
  profile_->BeginStep(n_rows == 1          ? StepKind::kOneRow
                      : n_rows <= kFewRows ? StepKind::kFewRows
                                           : StepKind::kManyRows,
                      n_rows, Profile::Clock::now());
  layer_ = -1;
  return Time({.name = "embed", .weight_bytes = BytesOfRows(args.table, args.tokens.size())},
              [&] { return inner_->Embed(args); });
}

Status ProfilingBackend::HcRead(const HcReadArgs& args) {
  return Time({.name = "hc_read",
               .layer = LabelOf(args.down).layer,
               .weight_bytes = BytesOf(args.down) + BytesOf(args.up) + BytesOf(args.inject),
               .ops = args.n_rows * (OpsOf(args.down) + OpsOf(args.up) + OpsOf(args.inject))},
              [&] { return inner_->HcRead(args); });
}

Status ProfilingBackend::HcWrite(const HcWriteArgs& args) {
  return Time({.name = "hc_write"}, [&] { return inner_->HcWrite(args); });
}

Status ProfilingBackend::MatMul(const MatMulArgs& args) {
  OpPoint op;
  for (const MatMulArgs::Output& output : args.outputs) {
    *op.weight_bytes += BytesOf(output.weight);
    op.ops += args.n_rows * OpsOf(output.weight);
  }
  const Weight* const first = args.outputs.empty() ? nullptr : args.outputs.front().weight;
  const auto [name, is_new] = product_names_.try_emplace(first);
  if (is_new) {
    name->second = "matmul " + LabelOf(first).text;
    if (args.outputs.size() > 1) name->second += fmt::format(" +{}", args.outputs.size() - 1);
  }
  op.name = name->second;
  op.layer = LabelOf(first).layer;
  return Time(op, [&] { return inner_->MatMul(args); });
}

Status ProfilingBackend::Gdn(const GdnArgs& args) {
  return Time({.name = "gdn"}, [&] { return inner_->Gdn(args); });
}

Status ProfilingBackend::QsaAppend(const QsaAppendArgs& args) {
  return Time({.name = "qsa_append"}, [&] { return inner_->QsaAppend(args); });
}

Status ProfilingBackend::QsaAttend(const QsaAttendArgs& args) {
  return Time({.name = "qsa_attend"}, [&] { return inner_->QsaAttend(args); });
}

// One row reads n_used experts; how many several rows have in common is known only inside.
Status ProfilingBackend::Moe(const MoeArgs& args) {
  OpPoint op{.name = "moe", .layer = LabelOf(args.router).layer, .weight_bytes = std::nullopt};
  uint64_t bytes = 0;
  for (const Weight* w : {args.gate, args.up, args.down}) {
    if (w == nullptr) continue;
    bytes += args.n_used * BytesOf(w) / std::max<int64_t>(w->view().n_mats, 1);
    op.ops += args.n_used * OpsOf(w);
  }
  for (const Weight* w :
       {args.router, args.shared_gate, args.shared_up, args.shared_down, args.shared_inject}) {
    bytes += BytesOf(w);
    op.ops += OpsOf(w);
  }
  op.ops *= static_cast<double>(args.n_rows);
  if (args.n_rows == 1) op.weight_bytes = bytes;
  return Time(op, [&] { return inner_->Moe(args); });
}

Status ProfilingBackend::Ple(const PleArgs& args) {
  return Time({.name = "ple",
               .layer = LabelOf(args.key).layer,
               .weight_bytes = BytesOf(args.key) + BytesOf(args.value) +
                               BytesOfRows(args.table, args.table_rows.size()),
               .ops = args.rows.n_rows * (OpsOf(args.key) + OpsOf(args.value))},
              [&] { return inner_->Ple(args); });
}

Status ProfilingBackend::DraftInput(const DraftInputArgs& args) {
  // Inside a step the draft head follows the trunk; alone it guesses.
  if (!profile_->in_step()) {
    profile_->BeginStep(StepKind::kDraft, args.n_rows, Profile::Clock::now());
  }
  return Time({.name = "draft_input",
               .layer = LabelOf(args.proj).layer,
               .weight_bytes = BytesOf(args.proj) + BytesOfRows(args.table, args.tokens.size()),
               .ops = args.n_rows * args.n_streams * OpsOf(args.proj)},
              [&] { return inner_->DraftInput(args); });
}

Status ProfilingBackend::Commit(const CommitArgs& args) {
  layer_ = -1;
  return Time({.name = "commit"}, [&] { return inner_->Commit(args); });
}

Status ProfilingBackend::Synchronize() {
  Status status = inner_->Synchronize();
  profile_->EndStep();
  return status;
}

}  // namespace holdfast
