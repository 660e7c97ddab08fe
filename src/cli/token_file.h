#ifndef HOLDFAST_CLI_TOKEN_FILE_H_
#define HOLDFAST_CLI_TOKEN_FILE_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "token/vocabulary.h"

namespace holdfast::cli {

// All bytes of a file; "-" is standard input. Errors name the path.
Result<std::string> ReadFile(const std::string& path);

// Token ids of a JSON file: an array, or an object with "tokens". At least one; negative and huge
// ones are refused with their place.
Result<std::vector<TokenId>> ReadTokenFile(const std::string& path);

}  // namespace holdfast::cli

#endif  // HOLDFAST_CLI_TOKEN_FILE_H_
