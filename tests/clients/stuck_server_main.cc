// `holdfast serve` whose steps hang on demand: while the file --hang names exists, the next step
// takes it away and does not end. For stuck_step.mjs; the real program has no way to ask for this.

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <thread>

#include "cli/serve.h"

int main(int argc, char** argv) {
  holdfast::cli::ServeOptions options;
  std::string hang;
  CLI::App app;
  CLI::App* const serve = app.add_subcommand("serve");
  serve->add_option("--port", options.port);
  serve->add_option("--ctx", options.model.ctx);
  serve->add_option("--store", options.cache.store);
  serve->add_option("--autosave", options.cache.autosave);
  serve->add_option("--stall-timeout", options.stall_timeout_s);
  serve->add_option("--stall-restarts", options.stall_restarts);
  serve->add_option("--hang", hang)->required();
  CLI11_PARSE(app, argc, argv);
  options.in_step = [hang] {
    std::error_code error;
    if (!std::filesystem::remove(hang, error)) return;
    // Busy, like a computation that lost its end.
    for (volatile bool stuck = true; stuck;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  const holdfast::Status status = holdfast::cli::RunServe(options, std::cout);
  if (!status.ok()) std::cerr << status.ToString() << "\n";
  return status.ok() ? 0 : 1;
}
