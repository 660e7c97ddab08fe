#ifndef HOLDFAST_CLI_RESTART_H_
#define HOLDFAST_CLI_RESTART_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace holdfast::cli {

// This process may begin anew: the same program with the same arguments and the same process id,
// in fresh memory and without any of its threads. A thread that is stuck in a computation ends in
// no other way, and whoever started the process (a terminal, systemd) need not know.
//
// What the new program must know stands in its environment, bound to this process id. Times are
// those of the steady clock, which goes on.
class Restarts {
 public:
  // Of a process that was not restarted.
  Restarts() = default;
  // What an earlier program of this process left, if there was one; removes it from the
  // environment. Before other threads are started.
  static Restarts TakeFromEnvironment();
  // None when `text` is not of process `process_id`, or is not what Text() writes.
  static Restarts Parse(std::string_view text, int64_t process_id);
  std::string Text(int64_t process_id) const;

  int64_t n_total() const { return n_total_; }
  int64_t CountSince(std::chrono::seconds time) const;
  // An open listening socket of the program before; -1: none.
  int listening_socket() const { return listening_socket_; }

  void Add(std::chrono::seconds now, int listening_socket);
  // Begins the program anew. All files but the standard ones and the listening socket are closed.
  // Only returns when that fails, with the process as it was.
  Status Execute() const;

 private:
  int64_t n_total_ = 0;
  std::vector<std::chrono::seconds> times_;  // the latest ones
  int listening_socket_ = -1;
};

// Now, on the clock that Restarts uses.
std::chrono::seconds SteadySeconds();

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_RESTART_H_
