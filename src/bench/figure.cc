#include "bench/figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

Status CheckObject(const Json& json) {
  if (json.is_object()) return OkStatus();
  return InvalidArgumentError(fmt::format("{}, wanted an object", json.type_name()));
}

// Reads fields until the first that is wrong, whose error it keeps.
class Fields {
 public:
  explicit Fields(const Json& json) : json_(json), status_(CheckObject(json)) {}

  std::string Text(const char* name) {
    const Json* value = Find(name, &Json::is_string, "a string");
    return value == nullptr ? "" : value->get<std::string>();
  }
  int64_t Count(const char* name) {
    const Json* value = Find(name, &Json::is_number_integer, "an integer");
    const int64_t n = value == nullptr ? 0 : value->get<int64_t>();
    if (n < 0) Fail(name, "negative", "0 or more");
    return std::max<int64_t>(n, 0);
  }
  double Number(const char* name) {
    const Json* value = Find(name, &Json::is_number, "a number");
    const double x = value == nullptr ? 0.0 : value->get<double>();
    if (!std::isfinite(x) || x < 0) Fail(name, "negative or not finite", "0 or more");
    return x;
  }
  double NumberOr(const char* name, double missing) {
    return status_.ok() && json_.contains(name) ? Number(name) : missing;
  }
  const Status& status() const { return status_; }

 private:
  const Json* Find(const char* name, bool (Json::*is)() const noexcept, const char* wanted) {
    if (!status_.ok()) return nullptr;
    const auto found = json_.find(name);
    if (found == json_.end()) {
      status_ = InvalidArgumentError(fmt::format("no field '{}'", name));
      return nullptr;
    }
    if (((*found).*is)()) return &*found;
    Fail(name, found->type_name(), wanted);
    return nullptr;
  }
  void Fail(const char* name, const char* found, const char* wanted) {
    if (!status_.ok()) return;
    status_ = InvalidArgumentError(fmt::format("'{}' is {}, wanted {}", name, found, wanted));
  }

  const Json& json_;
  Status status_;
};

}  // namespace

Spread Spread::Of(std::vector<double> values) {
  Spread spread;
  if (values.empty()) return spread;
  std::ranges::sort(values);
  const size_t n = values.size();
  spread.n = static_cast<int>(n);
  spread.min = values.front();
  spread.max = values.back();
  spread.median = n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return spread;
}

std::string Figure::Key() const {
  return fmt::format("{} n={} depth={} slots={} draft={} prompt={} state={}", test, n, depth,
                     n_slots, draft, prompt, state);
}

Json ToJson(const Figure& f, const BenchContext& context) {
  Json json;
  json["test"] = f.test;
  json["n"] = f.n;
  json["depth"] = f.depth;
  json["slots"] = f.n_slots;
  json["draft"] = f.draft;
  json["prompt"] = f.prompt;
  json["state"] = f.state;
  json["tokens_per_s"] = f.tokens_per_s.median;
  json["tokens_per_s_min"] = f.tokens_per_s.min;
  json["tokens_per_s_max"] = f.tokens_per_s.max;
  json["runs"] = f.tokens_per_s.n;
  json["seconds"] = f.seconds;
  if (f.bytes_per_token > 0) json["bytes_per_token"] = f.bytes_per_token;
  if (f.ops_per_token > 0) json["ops_per_token"] = f.ops_per_token;
  if (f.of_roofline > 0) json["of_roofline"] = f.of_roofline;
  if (f.draft == "on") {
    json["drafted"] = f.n_drafted;
    json["accepted"] = f.n_accepted;
  }
  if (f.state_bytes > 0) {
    json["state_bytes"] = f.state_bytes;
    json["bytes_per_s"] = f.bytes_per_s();
  }
  if (f.plain_bytes_per_s > 0) {
    json["plain_bytes_per_s"] = f.plain_bytes_per_s;
    json["of_plain"] = f.of_plain;
  }
  json["version"] = context.version;
  json["cpu"] = context.cpu;
  json["cpus"] = context.n_cpus;
  json["others_busy"] = context.others_busy;
  json["threads"] = context.n_threads;
  json["kernels"] = context.kernels;
  json["model"] = context.model;
  json["model_bytes"] = context.model_bytes;
  json["kv"] = context.kv;
  json["activations"] = context.activations;
  json["memory_bytes_per_s"] = context.memory_bytes_per_s;
  json["int8_ops_per_s"] = context.int8_ops_per_s;
  return json;
}

Result<StoredFigure> FigureFromJson(const Json& json) {
  Fields fields(json);
  StoredFigure stored;
  Figure& f = stored.figure;
  f.test = fields.Text("test");
  f.n = fields.Count("n");
  f.depth = fields.Count("depth");
  f.n_slots = static_cast<int>(fields.Count("slots"));
  f.draft = fields.Text("draft");
  f.prompt = fields.Text("prompt");
  f.state = fields.Text("state");
  f.tokens_per_s = {.median = fields.Number("tokens_per_s"),
                    .min = fields.Number("tokens_per_s_min"),
                    .max = fields.Number("tokens_per_s_max"),
                    .n = static_cast<int>(fields.Count("runs"))};
  f.seconds = fields.Number("seconds");
  f.of_roofline = fields.NumberOr("of_roofline", 0.0);
  BenchContext& context = stored.context;
  context.version = fields.Text("version");
  context.cpu = fields.Text("cpu");
  context.others_busy = fields.NumberOr("others_busy", 0.0);
  context.n_threads = static_cast<int>(fields.Count("threads"));
  context.kernels = fields.Text("kernels");
  context.model = fields.Text("model");
  context.model_bytes = static_cast<uint64_t>(fields.Count("model_bytes"));
  context.kv = fields.Text("kv");
  context.activations = fields.Text("activations");
  context.memory_bytes_per_s = fields.Number("memory_bytes_per_s");
  if (!fields.status().ok()) return fields.status();
  return stored;
}

Result<std::vector<StoredFigure>> ParseFigures(std::string_view text) {
  std::vector<StoredFigure> figures;
  const auto add = [&](const Json& json, const char* what, size_t number) -> Status {
    const Result<StoredFigure> figure = FigureFromJson(json);
    if (!figure.ok()) {
      return InvalidArgumentError(
          fmt::format("{} {}: {}", what, number, figure.status().message()));
    }
    figures.push_back(*figure);
    return OkStatus();
  };
  const Json whole = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (whole.is_array()) {
    for (size_t i = 0; i < whole.size(); ++i) HF_RETURN_IF_ERROR(add(whole[i], "element", i));
    return figures;
  }
  for (size_t line_number = 1; !text.empty(); ++line_number) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_discarded()) {
      return InvalidArgumentError(fmt::format("line {}: not JSON", line_number));
    }
    HF_RETURN_IF_ERROR(add(json, "line", line_number));
  }
  return figures;
}

}  // namespace holdfast
