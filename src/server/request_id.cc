#include "server/request_id.h"

#include <random>

namespace holdfast {

std::string MakeId(std::string_view prefix) {
  constexpr std::string_view kAlphabet =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  thread_local std::mt19937_64 random(std::random_device{}());
  std::uniform_int_distribution<size_t> letter(0, kAlphabet.size() - 1);
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kAlphabet[letter(random)];
  return id;
}

}  // namespace holdfast
