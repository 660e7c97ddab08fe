#ifndef HOLDFAST_CLI_SERVE_H_
#define HOLDFAST_CLI_SERVE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/cache_options.h"
#include "cli/model_options.h"
#include "cli/profile_option.h"
#include "server/model_service.h"

namespace holdfast::cli {

struct ServeOptions {
  ModelOptions model;
  std::string host = "127.0.0.1";
  int port = 8080;  // 0: any free one
  std::vector<std::string> api_keys;
  bool insecure = false;
  std::vector<std::string> cors_origins;  // web pages that may read answers
  std::string tls_cert, tls_key;          // PEM files; both or none
  // Of one address. -1: 256 where others can reach the server, on a loopback address no limit.
  int max_connections_per_address = -1;
  std::string pin_billing_line = "on";  // on or off
  std::vector<Setting> settings;        // all of the above and more, to be shown
  std::string alias;                    // the model's name in responses; empty: its file's
  CacheOptions cache;
  int slots = 4;
  bool warm = false;
  double step_target_ms = 100.0;
  int shutdown_timeout_s = 10;  // for running replies after SIGTERM
  int stall_timeout_s = 120;    // without progress of a step or of loading
  int stall_restarts = 3;       // after stuck steps and lost weights, in an hour
  int64_t max_body_mib = 32;
  ProfileOption profile;
  std::function<void()> in_step;  // of tests: EngineOptions::in_step
};

// Serves until SIGTERM or SIGINT, which end it cleanly; a second one ends it at once. The port is
// open, and said on `out`, before the model is loaded. Must be called before other threads are
// started (it blocks signals for them). After a step that does not end, and when a file of weights
// cannot be read any more, the process begins anew (restart.h), so this may be called by a program
// that was started with an open port.
Status RunServe(const ServeOptions& options, std::ostream& out);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_SERVE_H_
