#ifndef HOLDFAST_CLI_SESSIONS_H_
#define HOLDFAST_CLI_SESSIONS_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"

namespace holdfast::cli {

// What `holdfast sessions ACTION` does with a store that no server has open, or by a running
// server.
struct SessionsOptions {
  // list, show, save, restore, rm, pin, unpin, fork, export, import, gc, du or verify. save without
  // a name is of what a server has in memory.
  std::string action;
  std::string store;             // directory; empty: the default one
  std::vector<std::string> ids;  // the conversations of rm, pin and unpin
  std::string id;           // the conversation of show, save, fork and export; the new id of import
  std::string new_id;       // of fork
  int64_t position = -1;    // of fork; -1: the live end
  std::string file;         // of export and import; the plain name of save and restore
  bool json = false;        // list, show and du print JSON
  std::string server = "";  // URL; empty: the store itself
  std::string api_key = "";  // for the server
};

// kUnavailable when a server has the store open, saying what to do then.
Status RunSessions(const SessionsOptions& options, std::ostream& out);

// Declares `sessions` and its actions with their flags.
Command SessionsCommand(CLI::App* parent);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_SESSIONS_H_
