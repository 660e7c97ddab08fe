// Session files and catalogue rows from strangers: nothing they hold may crash, hang or be taken
// for something it is not.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "store/faulty_file_system.h"
#include "store/session_manifest.h"
#include "store/sqlite.h"
#include "store/store.h"
#include "store/store_testing.h"

namespace holdfast {
namespace {

using namespace holdfast::testing;  // NOLINT

// Whether the same is taken when it arrives in pieces.
bool Upload(std::span<const std::byte> bytes) {
  constexpr size_t kPiece = 97;
  FaultyFileSystem fs;
  const auto store = Store::Open(TestOptions(&fs), TestKeys());
  if (!store.ok()) std::abort();
  auto upload = (*store)->BeginUpload();
  if (!upload.ok()) std::abort();
  Status status;
  for (size_t n = 0; n < bytes.size() && status.ok(); n += kPiece) {
    status = (*upload)->Write(bytes.subspan(n, std::min(kPiece, bytes.size() - n)));
  }
  if (status.ok()) status = (*upload)->Import({}).status();
  upload->reset();
  if (!fs.List("/store/incoming")->empty()) std::abort();
  return status.ok();
}

void Import(std::span<const std::byte> bytes) {
  FaultyFileSystem fs;
  fs.SetContents("/in", {bytes.begin(), bytes.end()});
  const auto store = Store::Open(TestOptions(&fs), TestKeys());
  if (!store.ok()) std::abort();
  const auto report = (*store)->Import("/in", {});
  // Whatever was let in must be sound.
  if (report.ok() && !(*store)->Verify()->problems.empty()) std::abort();
  if (!report.ok() && !(*store)->List()->empty()) std::abort();
  if (Upload(bytes) != report.ok()) std::abort();
}

// Writes the input into columns of a sound catalogue and uses the store as if nothing happened.
void DamageRows(std::span<const std::byte> bytes) {
  static const auto base = [] {
    auto fs = std::make_unique<FaultyFileSystem>();
    const auto store = Store::Open(TestOptions(fs.get()), TestKeys());
    static const std::vector<int32_t> tokens = Tokens(20);
    SaveRequest request = Request("a", tokens, 18, {4, 10, 18});
    request.messages =
        std::vector<StoredMessage>{{"user", R"({"content":"hello"})", {}, NamedHash("m0"), 0, 4},
                                   {"assistant", R"("ok")", {"call_1"}, NamedHash("m1"), 4, 18}};
    if (!store.ok() || !(*store)->Save(request).ok()) std::abort();
    return fs;
  }();
  static constexpr const char* kChanges[] = {
      "UPDATE page SET tokens = ?1 WHERE id = ?2",
      "UPDATE page SET content = ?1 WHERE id = ?2",
      "UPDATE state SET tail = ?1 WHERE id = ?2",
      "UPDATE part SET hash = ?1 WHERE id = ?2",
      "UPDATE conversation SET tail = ?1 WHERE ?2 > 0",
      "UPDATE conversation SET content = ?1 WHERE ?2 > 0",
      "UPDATE conversation SET tags = CAST(?1 AS TEXT) WHERE ?2 > 0",
      "UPDATE state SET row = ?1 WHERE id = ?2",
      "UPDATE message SET content = CAST(?1 AS TEXT) WHERE number = ?2 % 2",
      "UPDATE message SET hash = ?1 WHERE number = ?2 % 2",
      "UPDATE tool_call SET id = CAST(?1 AS TEXT) WHERE ?2 > 0",
  };
  static constexpr const char* kNumbers[] = {
      "UPDATE page SET parent = ?1 WHERE id = ?2",
      "UPDATE page SET trunk = ?1 WHERE id = ?2",
      "UPDATE state SET position = ?1 WHERE id = ?2",
      "UPDATE state SET page = ?1 WHERE id = ?2",
      "UPDATE state SET parent = ?1 WHERE id = ?2",
      "UPDATE part SET offset = ?1 WHERE id = ?2",
      "UPDATE part SET bytes = ?1 WHERE id = ?2",
      "UPDATE segment SET bytes = ?1 WHERE ?2 > 0",
      "UPDATE conversation SET n_live = ?1 WHERE ?2 > 0",
      "UPDATE conversation SET parent = ?1 WHERE ?2 > 0",
      "UPDATE conversation SET page = ?1 WHERE ?2 > 0",
      "UPDATE space SET page_tokens = ?1 WHERE id = ?2",
      "UPDATE space SET page_bytes = ?1 WHERE id = ?2",
      "UPDATE kept SET kind = ?1 WHERE ?2 > 0",
      "UPDATE state SET next_token = ?1 WHERE id = ?2",
      "UPDATE message SET token_begin = ?1 WHERE number = ?2 % 2",
      "UPDATE message SET token_end = ?1 WHERE number = ?2 % 2",
  };
  if (bytes.size() < 2) return;
  const auto fs = base->Clone();
  {
    const auto db = Database::Open(fs.get(), "/store/catalogue.sqlite");
    if (!db.ok()) std::abort();
    const auto which = static_cast<size_t>(bytes[0]);
    const auto id = static_cast<int64_t>(bytes[1]) % 16;
    bytes = bytes.subspan(2);
    if (which < 128) {
      const char* sql = kChanges[which % std::size(kChanges)];
      static_cast<void>(RunSql(db->get(), sql, bytes, id));
    } else {
      int64_t value = 0;
      std::memcpy(&value, bytes.data(), std::min(bytes.size(), sizeof(value)));
      const char* sql = kNumbers[which % std::size(kNumbers)];
      static_cast<void>(RunSql(db->get(), sql, value, id));
    }
  }
  const auto store = Store::Open(TestOptions(fs.get()), TestKeys());
  if (!store.ok()) return;
  const auto tokens = Tokens(20);
  const auto found = (*store)->Find(tokens);
  if (found.ok() && found->prefix) {
    Loaded loaded;
    static_cast<void>((*store)->Load(*found->prefix, {loaded.Sink(TestKeys())}));
  }
  static_cast<void>((*store)->List());
  static_cast<void>((*store)->Show("a"));
  static_cast<void>((*store)->FindMessages(NamedHash("m1")));
  static_cast<void>((*store)->FindToolCall("call_1"));
  static_cast<void>((*store)->Export("a", "/out"));
  static_cast<void>((*store)->Fork("a", "b", 9));
  static_cast<void>((*store)->Verify());
  static_cast<void>((*store)->Gc());
  static_cast<void>((*store)->Save(Request("a", tokens, 18, {18})));
}

}  // namespace
}  // namespace holdfast

// The first byte chooses what the rest is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      holdfast::Import(bytes);
      break;
    case 1:
      holdfast::DamageRows(bytes);
      break;
    case 2:
      static_cast<void>(holdfast::ParseSessionManifest(bytes));
      break;
  }
  return 0;
}
