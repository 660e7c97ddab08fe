#include "cli/serve.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include "base/thread_activity.h"
#include "base/watchdog.h"
#include "cli/loaded_model.h"
#include "cli/service_manager.h"
#include "cli/stop_signals.h"
#include "server/access_policy.h"
#include "server/api.h"
#include "server/cors_policy.h"
#include "server/http_server.h"
#include "server/running_generations.h"
#include "grammar/grammar_cache.h"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

AccessPolicy::Options AccessOptions(const ServeOptions& options) {
  return {.host = options.host,
          .api_keys = options.api_keys,
          .insecure = options.insecure,
          .cors_origins = options.cors_origins};
}

Status Validate(const ServeOptions& options) {
  const auto check = [](const char* flag, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return OkStatus();
    return InvalidArgumentError(
        fmt::format("{} is {}, must be from {} to {}", flag, value, low, high));
  };
  HF_RETURN_IF_ERROR(check("--port", options.port, 0, 65535));
  HF_RETURN_IF_ERROR(check("--shutdown-timeout", options.shutdown_timeout_s, 0, 3600));
  HF_RETURN_IF_ERROR(check("--stall-timeout", options.stall_timeout_s, 1, 86400));
  HF_RETURN_IF_ERROR(check("--max-body-mib", options.max_body_mib, 1, 1024));
  HF_RETURN_IF_ERROR(
      check("--max-connections-per-address", options.max_connections_per_address, -1, 1 << 20));
  if (options.pin_billing_line != "on" && options.pin_billing_line != "off") {
    return InvalidArgumentError(
        fmt::format("--pin-billing-line is {}, must be on or off", options.pin_billing_line));
  }
  HF_RETURN_IF_ERROR(CorsPolicy::Validate(options.cors_origins));
  return AccessPolicy::Validate(AccessOptions(options));
}

std::string Url(const ServeOptions& options, int port) {
  const bool is_ipv6 = options.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", options.tls_cert.empty() ? "http" : "https",
                     is_ipv6 ? "[" : "", options.host, is_ipv6 ? "]" : "", port);
}

// The start screen: what runs, on what, with how much memory.
std::string Describe(const Engine& engine, const std::string& model_path) {
  std::string text = fmt::format("model    {} ({} layers, {} tokens of vocabulary)\n", model_path,
                                 engine.config().n_layers, engine.vocab_size());
  text += fmt::format("kernels  {}, {} threads\n", engine.backend().kernels().name,
                      engine.backend().n_threads());
  text += fmt::format("context  {} tokens\n", engine.context_length());
  text += engine.plan().table;
  for (const std::string& note : engine.plan().notes) text += "note: " + note + "\n";
  return text;
}

// Everything a running server consists of. Members are destroyed from the last to the first: the
// HTTP server before the engine it asks.
class Service {
 public:
  Service(const ServeOptions& options, std::ostream& out)
      : options_(options),
  text += fmt::format("  grammars of replies   {:>8} MiB  (at most, beside the above)\n",
                      GrammarCache::BudgetBytes(engine.plan().n_slots) >> 20);
        out_(out),
        watchdog_([this](const std::string& name, milliseconds silent, const std::string& threads) {
          OnStall(name, silent, threads);
        }) {}

  Status Open(const EngineOptions& engine_options);
  // Until a signal comes or loading fails.
  Status Run(StopSignals& signals);

 private:
  void Load(const EngineOptions& engine_options);
  void OnStall(const std::string& name, milliseconds silent, const std::string& threads);
  // False: the engine has been silent for too long.
  bool CheckSteps();
  void Close();

  const ServeOptions& options_;
  std::ostream& out_;
  ModelState state_;
  RunningGenerations running_;
  Watchdog watchdog_;
  ServiceManager manager_;  // told of by Run() alone
  LoadedModel loaded_;      // the loader's until loading_done_
  Status load_status_;      // as above
  std::atomic<bool> loading_done_ = false;
  std::unique_ptr<HttpServer> server_;
  std::thread loader_;
};

Status Service::Open(const EngineOptions& engine_options) {
  const AccessPolicy access(AccessOptions(options_));
  const CorsPolicy cors(options_.cors_origins);
  HttpServerOptions http;
  http.host = options_.host;
  http.port = static_cast<uint16_t>(options_.port);
  http.limits.max_body_bytes = options_.max_body_mib << 20;
  http.limits.max_connections_per_address = options_.max_connections_per_address;
  if (options_.max_connections_per_address < 0) {
    http.limits.max_connections_per_address = IsLoopbackHost(options_.host) ? 0 : 256;
  }
  http.tls_cert = options_.tls_cert;
  http.tls_key = options_.tls_key;
  http.check_head = [access, cors](const HttpRequest& head) {
    return cors.IsPreflight(head) ? std::nullopt : access.Check(head);
  };
  http.open_body = MakeBodyOpener(&state_);
  http.add_headers = [cors](const HttpRequest& request) { return cors.ResponseHeaders(request); };
  const auto handler = [cors, api = MakeApi(&state_)](const HttpRequest& request) {
    return cors.IsPreflight(request) ? cors.Preflight(request) : api(request);
  };
  HF_ASSIGN_OR_RETURN(server_, HttpServer::Start(http, handler));
  out_ << "listening on " << Url(options_, server_->port()) << std::endl;
  loader_ = std::thread([this, engine_options] { Load(engine_options); });
  return OkStatus();
}

void Service::Load(const EngineOptions& engine_options) {
  ThreadActivity activity("loader");
  activity.Set("loading the model");
  const auto watch = watchdog_.Start("loading the model", seconds(options_.stall_timeout_s));
  const Engine::Progress show = TerminalProgress();
  Result<LoadedModel> loaded =
      LoadModel(engine_options, [&](std::string_view phase, double fraction) {
        watch->Progress();
        state_.SetProgress({std::string(phase), fraction});
        show(phase, fraction);
      });
  if (loaded.ok()) {
    loaded_ = std::move(*loaded);
    auto service = std::make_shared<ModelService>(*loaded_.service);
    if (!options_.alias.empty()) service->model_id = options_.alias;
    service->running = &running_;
    service->settings = options_.settings;
    service->pin_billing_line = options_.pin_billing_line == "on";
    loaded_.service = service;
    state_.Set(service);
  } else {
    load_status_ = loaded.status();
    state_.SetFailure(load_status_);
  }
  loading_done_ = true;
}

void Service::OnStall(const std::string& name, milliseconds silent, const std::string& threads) {
  const std::string message =
      fmt::format("{} has made no progress for {:.0f} s", name, silent.count() / 1000.0);
  spdlog::error("{}; the threads are:\n{}", message, threads);
  const int n = running_.FailAll(DeadlineExceededError(message));
  if (n > 0) spdlog::error("{} requests have been failed because of it", n);
}

bool Service::CheckSteps() {
  const auto silence = running_.silence();
  if (!silence || *silence < seconds(options_.stall_timeout_s)) return true;
  OnStall("the engine", *silence, DescribeThreads());
  return false;
}

Status Service::Run(StopSignals& signals) {
  bool announced = false;
  int signal_number = 0;
  while (signal_number == 0) {
    signal_number = signals.WaitFor(milliseconds(200));
    if (CheckSteps()) manager_.Alive();
    if (!announced && !loading_done_) {
      const ModelState::Progress progress = state_.progress();
      manager_.Say(fmt::format("{} {:.0f} %", progress.phase, 100 * progress.fraction));
    }
    if (announced || !loading_done_) continue;
    if (!load_status_.ok()) break;
    announced = true;
    const std::string ready = "ready on " + Url(options_, server_->port());
    out_ << Describe(*loaded_.engine, loaded_.service->model_id) << ready << std::endl;
    manager_.Ready(ready);
  }
  if (signal_number != 0) spdlog::info("signal {}: ending", signal_number);
  manager_.Ending();

  // Ending is bounded, whatever hangs: work still in the way is left to the system.
  std::atomic<bool> closed = false;
  std::thread closer([this, &closed] {
    ThreadActivity activity("closer");
    activity.Set("closing connections and the engine");
    Close();
    closed = true;
  });
  const auto end = std::chrono::steady_clock::now() + seconds(options_.shutdown_timeout_s + 20);
  while (!closed) {
    const bool again = signals.WaitFor(milliseconds(50)) != 0;
    if (!again && std::chrono::steady_clock::now() < end) continue;
    if (!again) {
      spdlog::error("the server could not be ended in time; the threads are:\n{}",
                    DescribeThreads());
    }
    spdlog::shutdown();
    std::_Exit(again ? 130 : 1);
  }
  closer.join();
  return load_status_;
}

void Service::Close() {
  server_->Shutdown(seconds(options_.shutdown_timeout_s));
  loader_.join();  // a load cannot be stopped
  state_.Set(nullptr);
  if (loaded_.engine != nullptr) loaded_.engine->Shutdown(seconds(1));
}

}  // namespace

Status RunServe(const ServeOptions& options, std::ostream& out) {
  HF_RETURN_IF_ERROR(Validate(options));
  HF_ASSIGN_OR_RETURN(EngineOptions engine_options, ToEngineOptions(options.model));
  engine_options.n_slots = options.slots;
  engine_options.profile = options.profile.Make();
  engine_options.step_target_ms = options.step_target_ms;
  HF_RETURN_IF_ERROR(engine_options.Validate());
  HF_RETURN_IF_ERROR(ApplyCacheOptions(options.cache, &engine_options));
  StopSignals signals;
  Service service(options, out);
  HF_RETURN_IF_ERROR(service.Open(engine_options));
  const Status status = service.Run(signals);
  if (!status.ok() || !engine_options.profile) return status;
  return options.profile.Report(*engine_options.profile, /*with_table=*/true, std::cerr);
}

}  // namespace holdfast::cli
