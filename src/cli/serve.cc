#include "cli/serve.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/thread_activity.h"
#include "base/watchdog.h"
#include "cli/loaded_model.h"
#include "cli/restart.h"
#include "cli/service_manager.h"
#include "cli/stop_signals.h"
#include "grammar/grammar_cache.h"
#include "server/access_policy.h"
#include "server/api.h"
#include "server/cors_policy.h"
#include "server/http_server.h"
#include "server/running_generations.h"

namespace holdfast::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kLookEvery{200};
constexpr std::chrono::hours kRestartWindow{1};
constexpr seconds kRescueBound{60};

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
  HF_RETURN_IF_ERROR(check("--stall-restarts", options.stall_restarts, 0, 50));
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
  text += fmt::format("  grammars of replies   {:>8} MiB  (at most, beside the above)\n",
                      GrammarCache::BudgetBytes(engine.plan().n_slots) >> 20);
  for (const std::string& note : engine.plan().notes) text += "note: " + note + "\n";
  return text;
}

// Everything a running server consists of. Members are destroyed from the last to the first: the
// HTTP server before the engine it asks.
class Service {
 public:
  Service(const ServeOptions& options, Restarts restarts, std::ostream& out)
      : options_(options),
        out_(out),
        restarts_(std::move(restarts)),
        watchdog_([this](const std::string& name, milliseconds silent, const std::string& threads) {
          OnStall(name, silent, threads);
        }) {}

  Status Open(const EngineOptions& engine_options);
  // Until a signal comes, loading fails or the engine is stuck.
  Status Run(StopSignals& signals);

 private:
  void Load(const EngineOptions& engine_options);
  void OnStall(const std::string& name, milliseconds silent, const std::string& threads);
  // Fails requests that nothing moves for. Returns for how long the engine has been in one step,
  // when that is too long.
  std::optional<milliseconds> CheckSteps();
  // The engine is stuck: saves what can be saved and begins the program anew, or says why not.
  // Does not return: destroying the engine would wait for the stuck thread.
  [[noreturn]] void StartAnew(milliseconds silent, StopSignals& signals);
  // Runs `work`, which may hang, for `bound` at most, and not on when a signal comes: its number,
  // or 0.
  static int RunBounded(const char* name, seconds bound, StopSignals& signals,
                        const std::function<void()>& work);
  void Close();
  // A file of weights could not be read: begins the program anew, which loads what is there now.
  // Only returns when it may not or cannot.
  Status LoadAnew(const Status& weights, int listening);

  const ServeOptions& options_;
  std::ostream& out_;
  Restarts restarts_;
  std::chrono::steady_clock::time_point watching_since_, last_look_;  // of CheckSteps()
  uint64_t bytes_read_ = 0;                                           // as above
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
  http.listening_socket = restarts_.listening_socket();
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
    service->n_restarts = restarts_.n_total();
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

std::optional<milliseconds> Service::CheckSteps() {
  const auto now = std::chrono::steady_clock::now();
  const auto since = [now](std::chrono::steady_clock::time_point time) {
    return std::chrono::duration_cast<milliseconds>(now - time);
  };
  // A process that was stopped, or a host without any CPU to spare, is no stuck engine.
  if (now - last_look_ > kLookEvery * 10) watching_since_ = now;
  last_look_ = now;
  if (!loading_done_ || loaded_.engine == nullptr) return std::nullopt;
  // Nor is one that reads weights from a slow disk.
  const uint64_t bytes_read = loaded_.engine->weight_bytes_read();
  if (bytes_read != std::exchange(bytes_read_, bytes_read)) watching_since_ = now;
  const seconds bound(options_.stall_timeout_s);
  const milliseconds step = std::min(loaded_.engine->round_age(), since(watching_since_));
  if (step >= bound) return step;
  std::optional<milliseconds> silence = running_.silence();
  if (const Persistence* store = loaded_.engine->persistence(); silence && store != nullptr) {
    // Long restores and saves are waited for as long as they move.
    silence = std::min(*silence, since(store->last_progress()));
  }
  if (silence && std::min(*silence, since(watching_since_)) >= bound) {
    OnStall("the engine", *silence, DescribeThreads());
  }
  return std::nullopt;
}

int Service::RunBounded(const char* name, seconds bound, StopSignals& signals,
                        const std::function<void()>& work) {
  // Shared: what hangs outlives this function.
  const auto done = std::make_shared<std::atomic<bool>>(false);
  std::thread([name, done, work] {
    ThreadActivity activity(name);
    activity.Set("ending");
    work();
    *done = true;
  }).detach();
  const auto end = std::chrono::steady_clock::now() + bound;
  while (!*done && std::chrono::steady_clock::now() < end) {
    if (const int number = signals.WaitFor(milliseconds(50)); number != 0) return number;
  }
  return 0;
}

void Service::StartAnew(milliseconds silent, StopSignals& signals) {
  OnStall("a step", silent, DescribeThreads());
  const int64_t n_before = restarts_.CountSince(SteadySeconds() - kRestartWindow);
  const bool may = n_before < options_.stall_restarts;
  const std::string story =
      may ? "restarting the engine after a step that did not end"
          : fmt::format(
                "a step does not end, and the engine has been restarted {} times within an hour "
                "(--stall-restarts)",
                n_before);
  spdlog::error("{}", story);
  manager_.Say(story);
  state_.SetProgress({story, 0.0});
  state_.Set(nullptr);
  int signal_number = RunBounded("rescuer", kRescueBound, signals, [this] {
    const int64_t n_left = loaded_.engine->SaveWithoutThread(
        DeadlineExceededError("the step of this request did not end"), kRescueBound);
    if (n_left > 0) spdlog::error("{} conversations could not be saved in time", n_left);
  });
  // Its copy keeps the port open: clients that come now are answered by the new program.
  const int listening = ::dup(server_->listening_socket());
  const auto close = [this] { server_->Shutdown(seconds(1)); };
  if (signal_number == 0) signal_number = RunBounded("closer", seconds(15), signals, close);
  if (may && signal_number == 0) {
    restarts_.Add(SteadySeconds(), listening);
    spdlog::default_logger()->flush();
    const Status status = restarts_.Execute();
    spdlog::error("the program could not be begun anew: {}", status.ToString());
  }
  manager_.Ending();
  spdlog::shutdown();
  std::_Exit(1);
}

Status Service::Run(StopSignals& signals) {
  bool announced = false;
  int signal_number = 0;
  Status weights;
  while (signal_number == 0) {
    signal_number = signals.WaitFor(kLookEvery);
    if (const auto silent = CheckSteps()) StartAnew(*silent, signals);
    if (loading_done_ && loaded_.engine != nullptr) weights = loaded_.engine->weights_status();
    if (!weights.ok()) break;
    manager_.Alive();
    if (!announced && !loading_done_) {
      const ModelState::Progress progress = state_.progress();
      manager_.Say(fmt::format("{} {:.0f} %", progress.phase, 100 * progress.fraction));
    }
    if (announced || !loading_done_) continue;
    if (!load_status_.ok()) break;
    announced = true;
    std::string ready = "ready on " + Url(options_, server_->port());
    if (restarts_.n_total() > 0) {
      ready += fmt::format(", engine restarted {} times", restarts_.n_total());
    }
    out_ << Describe(*loaded_.engine, loaded_.service->model_id) << ready << std::endl;
    manager_.Ready(ready);
  }
  if (signal_number != 0) spdlog::info("signal {}: ending", signal_number);
  if (!weights.ok()) spdlog::error("{}", weights.ToString());
  // Keeps the port open, as in StartAnew().
  const int listening = weights.ok() ? -1 : ::dup(server_->listening_socket());
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
  return weights.ok() ? load_status_ : LoadAnew(weights, listening);
}

Status Service::LoadAnew(const Status& weights, int listening) {
  if (restarts_.CountSince(SteadySeconds() - kRestartWindow) >= options_.stall_restarts) {
    return weights;
  }
  restarts_.Add(SteadySeconds(), listening);
  spdlog::default_logger()->flush();
  return restarts_.Execute();
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
  engine_options.warm = options.warm;
  engine_options.profile = options.profile.Make();
  engine_options.step_target_ms = options.step_target_ms;
  engine_options.in_step = options.in_step;
  HF_RETURN_IF_ERROR(engine_options.Validate());
  HF_RETURN_IF_ERROR(ApplyCacheOptions(options.cache, &engine_options));
  StopSignals signals;
  Service service(options, Restarts::TakeFromEnvironment(), out);
  HF_RETURN_IF_ERROR(service.Open(engine_options));
  const Status status = service.Run(signals);
  if (!status.ok() || !engine_options.profile) return status;
  return options.profile.Report(*engine_options.profile, /*with_table=*/true, std::cerr);
}

}  // namespace holdfast::cli
