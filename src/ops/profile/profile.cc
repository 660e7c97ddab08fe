#include "ops/profile/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

namespace holdfast {
namespace {

// A longer wait is an idle engine.
constexpr double kLongestGapS = 0.02;

double Seconds(Profile::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

std::string_view StepName(StepKind kind) {
  switch (kind) {
    case StepKind::kOneRow:
      return "steps of 1 row";
    case StepKind::kFewRows:
      return "steps of 2 to 16 rows";
    case StepKind::kManyRows:
      return "steps of more rows";
    case StepKind::kDraft:
      return "steps of the draft head";
  }
  return "steps";
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Profile::Profile(bool keep_events, size_t max_events)
    : keep_events_(keep_events), max_events_(max_events) {}

bool Profile::in_step() const {
  const std::lock_guard lock(mutex_);
  return in_step_;
}

void Profile::BeginStep(StepKind kind, int64_t n_rows, Clock::time_point now) {
  const std::lock_guard lock(mutex_);
  CloseStep();
  if (has_last_end_) {
    const double gap = Seconds(now - last_end_);
    if (gap < kLongestGapS) groups_[static_cast<size_t>(kind_)].gaps += gap;
  }
  in_step_ = true;
  kind_ = kind;
  n_rows_ = n_rows;
  step_begin_ = last_end_ = now;
}

void Profile::EndStep() {
  const std::lock_guard lock(mutex_);
  CloseStep();
}

// A step ends with its last op.
void Profile::CloseStep() {
  if (!in_step_) return;
  in_step_ = false;
  has_last_end_ = true;
  Group& group = groups_[static_cast<size_t>(kind_)];
  ++group.n_steps;
  group.n_rows += n_rows_;
  group.seconds += Seconds(last_end_ - step_begin_);
  Keep(StepName(kind_), -1, n_rows_, step_begin_, last_end_);
}

void Profile::AddOp(const OpPoint& op, Clock::time_point begin, Clock::time_point end) {
  const std::lock_guard lock(mutex_);
  Group& group = groups_[in_step_ ? static_cast<size_t>(kind_) : kOutside];
  const auto [found, is_new] = group.index.try_emplace(std::string(op.name), group.ops.size());
  if (is_new) group.ops.push_back({.name = std::string(op.name)});
  OpSum& sum = group.ops[found->second];
  ++sum.n_calls;
  sum.seconds += Seconds(end - begin);
  sum.bytes_known = sum.bytes_known && op.weight_bytes.has_value();
  sum.weight_bytes += static_cast<double>(op.weight_bytes.value_or(0));
  sum.ops += op.ops;
  last_end_ = end;
  Keep(op.name, op.layer, -1, begin, end);
}

void Profile::Keep(std::string_view name, int layer, int64_t n_rows, Clock::time_point begin,
                   Clock::time_point end) {
  if (!keep_events_) return;
  if (events_.size() >= max_events_) {
    ++n_dropped_;
    return;
  }
  const auto [id, is_new] =
      name_ids_.try_emplace(std::string(name), static_cast<uint32_t>(names_.size()));
  if (is_new) names_.emplace_back(name);
  events_.push_back({.name = id->second,
                     .layer = layer,
                     .n_rows = static_cast<int32_t>(n_rows),
                     .begin_us = Seconds(begin - start_) * 1e6,
                     .duration_us = Seconds(end - begin) * 1e6});
}

void Profile::Reset() {
  const std::lock_guard lock(mutex_);
  CloseStep();
  groups_ = {};
  has_last_end_ = false;
}

std::string Profile::GroupTable(const Group& group, std::string_view title) {
  const double n = static_cast<double>(std::max<int64_t>(group.n_steps, 1));
  const double whole = group.seconds + group.gaps;
  std::string text = fmt::format("profile: {} {}, {:.1f} rows and {:.3f} ms each\n", group.n_steps,
                                 title, group.n_rows / n, whole / n * 1e3);
  text += fmt::format("  {:<28} {:>8} {:>11} {:>7} {:>7} {:>7}\n", "op", "calls", "us", "share",
                      "GB/s", "GOP/s");
  const auto line = [&](std::string_view name, const std::string& calls, double seconds,
                        const std::string& bytes, const std::string& ops) {
    text += fmt::format("  {:<28} {:>8} {:>11.1f} {:>6.1f}% {:>7} {:>7}\n", name, calls,
                        seconds / n * 1e6, whole > 0 ? 100 * seconds / whole : 0.0, bytes, ops);
  };
  std::vector<const OpSum*> ops;
  double in_ops = 0;
  for (const OpSum& op : group.ops) {
    ops.push_back(&op);
    in_ops += op.seconds;
  }
  std::ranges::stable_sort(ops, std::greater(), [](const OpSum* op) { return op->seconds; });
  for (const OpSum* op : ops) {
    const auto rate = [&](double amount, const char* form) {
      return amount > 0 && op->seconds > 0
                 ? fmt::format(fmt::runtime(form), amount / op->seconds / 1e9)
                 : "";
    };
    line(op->name, fmt::format("{:.1f}", op->n_calls / n), op->seconds,
         op->bytes_known ? rate(op->weight_bytes, "{:.1f}") : "", rate(op->ops, "{:.0f}"));
  }
  line("(between ops)", "", std::max(group.seconds - in_ops, 0.0), "", "");
  line("(between steps)", "", group.gaps, "", "");
  return text;
}

std::string Profile::Table() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (size_t kind = 0; kind < kOutside; ++kind) {
    if (groups_[kind].n_steps == 0) continue;
    text += GroupTable(groups_[kind], StepName(static_cast<StepKind>(kind)));
  }
  const Group& outside = groups_[kOutside];
  if (!outside.ops.empty()) {
    text += fmt::format("profile: outside steps\n  {:<28} {:>8} {:>11}\n", "op", "calls", "ms");
    for (const OpSum& op : outside.ops) {
      text += fmt::format("  {:<28} {:>8} {:>11.2f}\n", op.name, op.n_calls, op.seconds * 1e3);
    }
  }
  return text;
}

int64_t Profile::n_events_dropped() const {
  const std::lock_guard lock(mutex_);
  return n_dropped_;
}

Status Profile::WriteTrace(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "wb"));
  if (file == nullptr) return ErrnoError(errno, path);
  // Names are ours and tensors'; a tensor may be called anything.
  const auto quote = [](std::string_view name) {
    std::string text;
    for (const char c : name) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') {
        text += fmt::format("\\u{:04x}", byte);
      } else {
        text += c;
      }
    }
    return text;
  };
  std::vector<std::string> quoted;
  for (const std::string& name : names_) quoted.push_back(quote(name));
  fmt::print(file.get(), "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  fmt::print(file.get(),
             "{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":1,"
             "\"args\":{{\"name\":\"holdfast\"}}}}");
  for (const Event& event : events_) {
    std::string args;
    if (event.n_rows >= 0) args = fmt::format("\"rows\":{}", event.n_rows);
    if (event.layer >= 0) args = fmt::format("\"layer\":{}", event.layer);
    fmt::print(file.get(),
               ",\n{{\"name\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":{:.3f},\"dur\":{:.3f},"
               "\"args\":{{{}}}}}",
               quoted[event.name], event.begin_us, event.duration_us, args);
  }
  fmt::print(file.get(), "\n]}}\n");
  if (std::fflush(file.get()) != 0 || std::ferror(file.get()) != 0) {
    return ErrnoError(errno, path);
  }
  return OkStatus();
}

}  // namespace holdfast
