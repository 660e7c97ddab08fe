#include "store/store_speed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <vector>

#include "base/temp_folder.h"
#include "store/store.h"

namespace holdfast {
namespace {

constexpr size_t kDdBlockBytes = 16 << 20;
constexpr size_t kCatBlockBytes = 128 << 10;  // what coreutils' cat uses
constexpr int kPageTokens = 256;

using Clock = std::chrono::steady_clock;

double RateSince(Clock::time_point start, uint64_t n_bytes) {
  return static_cast<double>(n_bytes) / std::chrono::duration<double>(Clock::now() - start).count();
}

// Pages and one running state, all different and incompressible.
struct Conversation {
  StoreKeys keys;
  std::vector<int32_t> tokens;
  std::vector<std::vector<std::byte>> pages;
  std::vector<std::byte> running;
  uint64_t n_bytes = 0;

  explicit Conversation(const StoreSpeedOptions& options) {
    keys.model.name = "speed";
    keys.trunk_layout_key = 1;
    keys.kv_format = "int8";
    keys.numerics_key = "speed";
    keys.page_tokens = kPageTokens;
    keys.page_bytes = options.page_bytes;
    keys.running_bytes = options.running_bytes;
    const uint64_t of_pages = options.n_bytes - std::min(options.n_bytes, options.running_bytes);
    const uint64_t n_pages = std::max<uint64_t>(of_pages / options.page_bytes, 1);
    uint64_t state = 88172645463325252;
    const auto fill = [&state](std::vector<std::byte>* bytes, uint64_t n) {
      bytes->resize(n);
      for (uint64_t i = 0; i + 8 <= n; i += 8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        std::memcpy(bytes->data() + i, &state, 8);
      }
    };
    pages.resize(n_pages);
    for (auto& page : pages) fill(&page, options.page_bytes);
    fill(&running, options.running_bytes);
    n_bytes = n_pages * options.page_bytes + options.running_bytes;
    for (uint64_t i = 0; i < n_pages * kPageTokens; ++i) {
      tokens.push_back(static_cast<int32_t>(i & 0xffff));
    }
  }

  SaveRequest Request() const {
    SaveRequest request;
    request.conversation = "speed";
    request.tokens = tokens;
    request.n_live = static_cast<int64_t>(tokens.size());
    request.states.push_back({request.n_live, StateKind::kLiveEnd});
    request.source = [this](const PartRef& part, const auto& use) {
      return use(part.running ? running : pages[static_cast<size_t>(part.index)]);
    };
    return request;
  }
};

Result<double> TimeDd(const std::string& path, const Conversation& from) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoError(errno, path);
  std::vector<std::byte> block(kDdBlockBytes, std::byte{0x5a});
  const auto start = Clock::now();
  int error_number = 0;
  for (uint64_t done = 0; done < from.n_bytes && error_number == 0;) {
    const size_t want = std::min<uint64_t>(block.size(), from.n_bytes - done);
    const ssize_t n = ::write(fd, block.data(), want);
    if (n < 0 && errno != EINTR) error_number = errno;
    if (n > 0) done += static_cast<uint64_t>(n);
  }
  if (error_number == 0 && ::fsync(fd) != 0) error_number = errno;
  const double rate = RateSince(start, from.n_bytes);
  ::close(fd);
  if (error_number != 0) return ErrnoError(error_number, path);
  return rate;
}

Result<double> TimeCat(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, path);
  std::vector<std::byte> block(kCatBlockBytes);
  const auto start = Clock::now();
  uint64_t done = 0;
  ssize_t n;
  while ((n = ::read(fd, block.data(), block.size())) > 0) done += static_cast<uint64_t>(n);
  const int error_number = n < 0 ? errno : 0;
  const double rate = RateSince(start, done);
  ::close(fd);
  if (error_number != 0) return ErrnoError(error_number, path);
  return rate;
}

struct Buffers {
  std::vector<std::vector<std::byte>> pages;
  std::vector<std::byte> running;

  explicit Buffers(const Conversation& like) : running(like.running.size(), std::byte{1}) {
    for (const auto& page : like.pages) pages.emplace_back(page.size(), std::byte{1});
  }
  LoadOptions Options() {
    return {[this](std::span<const PartRef> parts, const auto& fill) {
      std::vector<std::span<std::byte>> spans;
      for (const PartRef& part : parts) {
        spans.push_back(part.running ? running : pages[static_cast<size_t>(part.index)]);
      }
      return fill(spans);
    }};
  }
};

Status Measure(const std::string& dir, const Conversation& from, Buffers* to, StoreSpeed* speed) {
  const std::string plain = dir + "/plain";
  HF_ASSIGN_OR_RETURN(const double dd, TimeDd(plain, from));
  speed->dd_bytes_per_s = std::max(speed->dd_bytes_per_s, dd);
  HF_ASSIGN_OR_RETURN(const double cat, TimeCat(plain));
  speed->cat_bytes_per_s = std::max(speed->cat_bytes_per_s, cat);
  std::filesystem::remove(plain);

  StoreOptions options;
  options.dir = dir + "/store";
  {
    HF_ASSIGN_OR_RETURN(const auto store, Store::Open(options, from.keys));
    auto start = Clock::now();
    HF_RETURN_IF_ERROR(store->Save(from.Request()).status());
    speed->save_bytes_per_s = std::max(speed->save_bytes_per_s, RateSince(start, from.n_bytes));
    HF_ASSIGN_OR_RETURN(const StoredPrefix prefix, store->FindIn("speed"));
    start = Clock::now();
    HF_RETURN_IF_ERROR(store->Load(prefix, to->Options()).status());
    speed->load_bytes_per_s = std::max(speed->load_bytes_per_s, RateSince(start, from.n_bytes));
  }
  if (to->running != from.running || to->pages != from.pages) {
    return InternalError("store speed: what was loaded is not what was saved");
  }
  std::filesystem::remove_all(options.dir);
  return OkStatus();
}

}  // namespace

std::string StoreSpeed::ToText() const {
  constexpr double kMb = 1e6;
  return fmt::format(
      "{:.0f} MB of pages and running state\n"
      "  save  {:>7.0f} MB/s   dd bs=16M conv=fsync  {:>7.0f} MB/s   {:.0f}%\n"
      "  load  {:>7.0f} MB/s   cat (cached)          {:>7.0f} MB/s   {:.0f}%\n",
      static_cast<double>(n_bytes) / kMb, save_bytes_per_s / kMb, dd_bytes_per_s / kMb,
      100 * save_share(), load_bytes_per_s / kMb, cat_bytes_per_s / kMb, 100 * load_share());
}

Result<StoreSpeed> MeasureStoreSpeed(const StoreSpeedOptions& options) {
  if (options.page_bytes == 0 || options.n_bytes == 0 || options.n_repeats < 1) {
    return InvalidArgumentError("store speed: bytes, page bytes and repeats must be at least 1");
  }
  HF_ASSIGN_OR_RETURN(const TempFolder dir, TempFolder::Create("speed", options.dir));
  const Conversation from(options);
  Buffers to(from);
  StoreSpeed speed;
  speed.n_bytes = from.n_bytes;
  for (int i = 0; i < options.n_repeats; ++i) {
    HF_RETURN_IF_ERROR(Measure(dir.path(), from, &to, &speed));
  }
  return speed;
}

}  // namespace holdfast
