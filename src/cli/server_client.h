#ifndef HOLDFAST_CLI_SERVER_CLIENT_H_
#define HOLDFAST_CLI_SERVER_CLIENT_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "server/json.h"

namespace holdfast::cli {

// Asks a running `holdfast serve`. One connection for each call; a call waits as long as the server
// works.
class ServerClient {
 public:
  // "http://HOST[:PORT]"; kInvalidArgument for anything else. `api_key` may be empty.
  static Result<ServerClient> Create(std::string_view url, std::string api_key);

  // The JSON of the answer. kUnavailable when nobody answers there; the server's own message when
  // it refuses, with the code that belongs to its HTTP status.
  Result<Json> Call(std::string_view method, std::string_view path, std::string body = "") const;
  // Writes the body of the answer to `file`, which is replaced when all of it has come.
  Status Download(std::string_view path, const std::string& file) const;
  // Sends a file as the body of a POST.
  Result<Json> Upload(std::string_view path, const std::string& file) const;

 private:
  ServerClient(std::string host, std::string port, std::string api_key)
      : host_(std::move(host)), port_(std::move(port)), api_key_(std::move(api_key)) {}

  std::string host_, port_, api_key_;
};

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_SERVER_CLIENT_H_
