#include "cli/profile_option.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

namespace holdfast::cli {

std::shared_ptr<Profile> ProfileOption::Make() const {
  return on ? std::make_shared<Profile>(!trace_path.empty()) : nullptr;
}

Status ProfileOption::Report(const Profile& profile, bool with_table, std::ostream& out) const {
  if (with_table) out << profile.Table() << std::flush;
  if (trace_path.empty()) return OkStatus();
  HF_RETURN_IF_ERROR(profile.WriteTrace(trace_path));
  out << "trace of the steps (for chrome://tracing or ui.perfetto.dev): " << trace_path << "\n";
  if (profile.n_events_dropped() > 0) {
    out << fmt::format("{} later ops are not in it\n", profile.n_events_dropped());
  }
  return OkStatus();
}

void AddProfileFlag(CLI::App* app, ProfileOption* option) {
  app->add_option_function<std::string>(
         "--profile",
         [option](const std::string& path) {
           option->on = true;
           option->trace_path = path;
         },
         "print the time of every op; with a file name also write a trace for chrome://tracing")
      ->expected(0, 1)
      ->type_name("[FILE]");
}

}  // namespace holdfast::cli
