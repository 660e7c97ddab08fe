#include <fmt/format.h>

#include <map>

#include "store/little_endian.h"
#include "store/session_manifest.h"
#include "store/store_core.h"

namespace holdfast {
namespace {

// Large enough to be quick, small enough not to matter.
constexpr size_t kCheckPiece = 1 << 20;

Status OtherModel(const std::string& name, const std::string& what, const std::string& found,
                  const std::string& wanted) {
  return FailedPreconditionError(
      fmt::format("{}: session of {}: {}, this server's is {}", name, what, found, wanted));
}

// Each reason to refuse a sound session has its own text.
Status CheckKeys(const std::string& name, const SessionManifest& manifest, const StoreKeys& mine) {
  const StoreKeys& theirs = manifest.keys;
  if (theirs.model.vocabulary != mine.model.vocabulary || theirs.vocab_size != mine.vocab_size) {
    return OtherModel(name, "another vocabulary", theirs.model.vocabulary.Hex(),
                      mine.model.vocabulary.Hex());
  }
  if (theirs.model.config != mine.model.config ||
      theirs.model.provisional != mine.model.provisional ||
      (theirs.model.full && mine.model.full && *theirs.model.full != *mine.model.full)) {
    return OtherModel(name, "another model",
                      fmt::format("{} ({})", theirs.model.provisional.Hex(), theirs.model.name),
                      fmt::format("{} ({})", mine.model.provisional.Hex(), mine.model.name));
  }
  if (theirs.kv_format != mine.kv_format) {
    return OtherModel(name, "another KV format", theirs.kv_format, mine.kv_format);
  }
  if (theirs.trunk_layout_key != mine.trunk_layout_key || theirs.page_tokens != mine.page_tokens ||
      theirs.page_bytes != mine.page_bytes || theirs.running_bytes != mine.running_bytes) {
    return OtherModel(
        name, "another layout",
        fmt::format("{:016x} ({} B pages of {} tokens, {} B running)", theirs.trunk_layout_key,
                    theirs.page_bytes, theirs.page_tokens, theirs.running_bytes),
        fmt::format("{:016x} ({} B pages of {} tokens, {} B running)", mine.trunk_layout_key,
                    mine.page_bytes, mine.page_tokens, mine.running_bytes));
  }
  if (theirs.numerics_key != mine.numerics_key) {
    return OtherModel(name, "another numerics key", theirs.numerics_key, mine.numerics_key);
  }
  if (mine.max_tokens > 0 && manifest.n_tokens > mine.max_tokens) {
    return OutOfRangeError(
        fmt::format("{}: session of {} tokens is larger than this server's "
                    "context of {}",
                    name, manifest.n_tokens, mine.max_tokens));
  }
  return OkStatus();
}

Result<uint64_t> CheckManifestBytes(const std::string& name, uint64_t bytes) {
  if (bytes <= kMaxManifestBytes) return bytes;
  return DataLossError(
      fmt::format("{}: manifest of {} bytes, wanted at most {}", name, bytes, kMaxManifestBytes));
}

// A session file read from beginning to end: manifest, tokens, and where each buffer lies.
class SessionReader {
 public:
  // `name` is what messages call it.
  static Result<std::unique_ptr<SessionReader>> Open(StoreCore* core, const std::string& path,
                                                     const std::string& name) {
    std::unique_ptr<SessionReader> self(new SessionReader(name));
    HF_ASSIGN_OR_RETURN(
        self->reader_, PartFileReader::Open(core->file_system, path, PartFileKind::kSession, name));
    HF_RETURN_IF_ERROR(self->ReadManifest());
    return self;
  }

  const SessionManifest& manifest() const { return manifest_; }
  // Of the whole file, by the manifest.
  uint64_t FileBytes() const {
    const StoreKeys& keys = manifest_.keys;
    const auto n_tokens = static_cast<uint64_t>(manifest_.n_tokens);
    const auto n_pages = static_cast<uint64_t>(manifest_.n_pages());
    uint64_t bytes = kEmptySessionBytes + SessionFootprint(manifest_bytes_) +
                     SessionFootprint(n_tokens * sizeof(int32_t)) +
                     n_pages * SessionFootprint(keys.page_bytes);
    if (manifest_.has_content) bytes += SessionFootprint(n_tokens * sizeof(uint64_t));
    if (manifest_.has_draft) bytes += n_pages * SessionFootprint(keys.draft_page_bytes);
    for (const SaveState& state : manifest_.states) {
      bytes += SessionFootprint(keys.running_bytes);
      if (state.has_draft) bytes += SessionFootprint(keys.draft_running_bytes);
    }
    return bytes;
  }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<uint64_t>& content() const { return content_; }

  // Checks all that follows the manifest: order, sizes, checksums, the end.
  Status ReadRest() {
    const StoreKeys& keys = manifest_.keys;
    const auto n = static_cast<uint64_t>(manifest_.n_tokens);
    HF_ASSIGN_OR_RETURN(const auto ids, ReadSmall(PartType::kTokens, n * sizeof(int32_t)));
    tokens_ = IntegersOf<int32_t>(ids);
    for (const int32_t token : tokens_) {
      if (token < 0 || (keys.vocab_size > 0 && token >= keys.vocab_size)) {
        return DataLossError(
            fmt::format("{}: token {}, wanted 0 to {}", name_, token, keys.vocab_size - 1));
      }
    }
    if (manifest_.has_content) {
      HF_ASSIGN_OR_RETURN(const auto hashes, ReadSmall(PartType::kContent, n * sizeof(uint64_t)));
      content_ = IntegersOf<uint64_t>(hashes);
    }
    for (int64_t i = 0; i < manifest_.n_pages(); ++i) {
      HF_RETURN_IF_ERROR(CheckBuffer(PartType::kTrunkPage, i, keys.page_bytes));
    }
    for (int64_t i = 0; i < manifest_.n_pages() && manifest_.has_draft; ++i) {
      HF_RETURN_IF_ERROR(CheckBuffer(PartType::kDraftPage, i, keys.draft_page_bytes));
    }
    for (const SaveState& state : manifest_.states) {
      HF_RETURN_IF_ERROR(CheckBuffer(PartType::kTrunkRunning, state.position, keys.running_bytes));
      if (!state.has_draft) continue;
      HF_RETURN_IF_ERROR(
          CheckBuffer(PartType::kDraftRunning, state.position, keys.draft_running_bytes));
    }
    HF_ASSIGN_OR_RETURN(const auto more, reader_->Next());
    if (!more) return OkStatus();
    return DataLossError(
        fmt::format("{}: a {} after all the manifest names", name_, PartTypeName(more->type)));
  }

  Status Give(const PartRef& ref, const std::function<Status(std::span<const std::byte>)>& use) {
    const bool draft = ref.section == StateSection::kDraft;
    const PartType type = ref.running ? (draft ? PartType::kDraftRunning : PartType::kTrunkRunning)
                                      : (draft ? PartType::kDraftPage : PartType::kTrunkPage);
    const auto found = buffers_.find({type, ref.index});
    if (found == buffers_.end()) {
      return InternalError(fmt::format("{}: no {} {}", name_, PartTypeName(type), ref.index));
    }
    scratch_.resize(found->second.bytes);
    HF_RETURN_IF_ERROR(reader_->Read(found->second, scratch_));
    return use(scratch_);
  }

 private:
  explicit SessionReader(const std::string& name) : name_(name) {}

  Result<PartInfo> Expect(PartType type, int64_t index) {
    HF_ASSIGN_OR_RETURN(const auto info, reader_->Next());
    if (info && info->type == type && info->index == index) return *info;
    return DataLossError(fmt::format("{}: {} {} in place of {} {}", name_,
                                     info ? PartTypeName(info->type) : "the end",
                                     info ? info->index : 0, PartTypeName(type), index));
  }

  Status CheckBytes(const PartInfo& info, uint64_t bytes) {
    if (info.bytes == bytes) return OkStatus();
    return DataLossError(fmt::format("{}: {} {} of {} bytes, wanted {}", name_,
                                     PartTypeName(info.type), info.index, info.bytes, bytes));
  }

  Status ReadManifest() {
    HF_ASSIGN_OR_RETURN(const PartInfo info, Expect(PartType::kManifest, 0));
    HF_RETURN_IF_ERROR(CheckManifestBytes(name_, info.bytes).status());
    std::vector<std::byte> text(info.bytes);
    HF_RETURN_IF_ERROR(reader_->Read(info, text));
    if (reader_->uid() != info.hash.low || reader_->store_id() != 0) {
      return DataLossError(name_ + ": the file header does not belong to the manifest");
    }
    auto manifest = ParseSessionManifest(text);
    if (!manifest.ok())
      return Status(manifest.status().code(), name_ + ": " + manifest.status().message());
    manifest_ = std::move(*manifest);
    manifest_bytes_ = info.bytes;
    return OkStatus();
  }

  // The file is at least as large as what it says it holds, so this allocates no more than that.
  Result<std::vector<std::byte>> ReadSmall(PartType type, uint64_t bytes) {
    HF_ASSIGN_OR_RETURN(const PartInfo info, Expect(type, 0));
    HF_RETURN_IF_ERROR(CheckBytes(info, bytes));
    std::vector<std::byte> payload(info.bytes);
    HF_RETURN_IF_ERROR(reader_->Read(info, payload));
    return payload;
  }

  Status CheckBuffer(PartType type, int64_t index, uint64_t bytes) {
    HF_ASSIGN_OR_RETURN(const PartInfo info, Expect(type, index));
    HF_RETURN_IF_ERROR(CheckBytes(info, bytes));
    HF_RETURN_IF_ERROR(reader_->Check(info, kCheckPiece));
    buffers_[{type, index}] = info;
    return OkStatus();
  }

  std::string name_;
  std::unique_ptr<PartFileReader> reader_;
  SessionManifest manifest_;
  uint64_t manifest_bytes_ = 0;
  std::vector<int32_t> tokens_;
  std::vector<uint64_t> content_;
  std::map<std::pair<PartType, int64_t>, PartInfo> buffers_;
  std::vector<std::byte> scratch_;
};

// Without a model of our own the session's keys decide which space it goes to; whether a server can
// use it is found out there.
class KeysForImport {
 public:
  KeysForImport(StoreCore* core, const StoreKeys& keys) : core_(core), borrowed_(!core->keys) {
    if (borrowed_) core->keys = keys;
  }
  ~KeysForImport() {
    if (!borrowed_) return;
    core_->keys.reset();
    core_->spaces = {};
  }
  Status FindSpaces() {
    if (!borrowed_) return OkStatus();
    HF_ASSIGN_OR_RETURN(core_->spaces, holdfast::FindSpaces(core_->db.get(), *core_->keys));
    return OkStatus();
  }

 private:
  StoreCore* core_;
  bool borrowed_;
};

struct IdChoice {
  std::string id;
  bool is_there = false;  // the very conversation of the file
};

// Needs no lock held.
Result<IdChoice> ChooseId(StoreCore* core, const std::string& wanted, const SessionReader& reader,
                          const ImportOptions& options) {
  std::lock_guard lock(core->db_mutex);
  const auto own = [&] {
    return IdChoice{fmt::format("{}-{:08x}", wanted.substr(0, 100),
                                static_cast<uint32_t>(core->options.random()))};
  };
  const Result<ConversationRow> row = ReadConversation(core->db.get(), wanted);
  if (row.status().code() == StatusCode::kNotFound) {
    return options.id_in_use ? own() : IdChoice{wanted};
  }
  HF_RETURN_IF_ERROR(row.status());
  if (!options.beside_others) {
    return AlreadyExistsError(
        fmt::format("conversation {} is in the store already; import it under another id", wanted));
  }
  const SessionManifest& manifest = reader.manifest();
  const TokenSpan theirs{reader.tokens(), reader.content()};
  const TokenSpan ours = row->tokens.span();
  const bool same_space = core->spaces.space != 0 && row->space == core->spaces.space;
  if (same_space && row->bad.empty() && row->n_live == manifest.n_live &&
      ours.size() == theirs.size() && CommonPrefix(ours, theirs) == ours.size()) {
    return IdChoice{wanted, true};
  }
  return own();
}

// Whether the draft part can be used here; if not, why.
std::string WhyNoDraft(const SessionManifest& manifest, const StoreKeys& mine) {
  if (mine.draft_layout_key == 0) {
    return manifest.has_draft ? "the draft part is left out: this server has no draft layer" : "";
  }
  if (!manifest.has_draft) return "the session has no draft part; it resumes without one";
  const StoreKeys& theirs = manifest.keys;
  if (theirs.draft_layout_key != mine.draft_layout_key || theirs.model.draft != mine.model.draft ||
      theirs.draft_page_bytes != mine.draft_page_bytes ||
      theirs.draft_running_bytes != mine.draft_running_bytes) {
    return "the draft part is left out: it is of another draft layer";
  }
  return "";
}

}  // namespace

Result<uint64_t> ReadManifestBytes(StoreCore* core, const std::string& path,
                                   const std::string& name) {
  HF_ASSIGN_OR_RETURN(const auto reader,
                      PartFileReader::Open(core->file_system, path, PartFileKind::kSession, name));
  HF_ASSIGN_OR_RETURN(const uint64_t bytes, reader->PeekBytes());
  return CheckManifestBytes(name, bytes);
}

Result<SessionHead> ReadSessionHead(StoreCore* core, const std::string& path,
                                    const std::string& name) {
  HF_ASSIGN_OR_RETURN(const auto reader, SessionReader::Open(core, path, name));
  if (core->keys) HF_RETURN_IF_ERROR(CheckKeys(name, reader->manifest(), *core->keys));
  return SessionHead{reader->manifest().conversation, reader->FileBytes()};
}

Result<ImportReport> ImportSession(StoreCore* core, const std::string& path,
                                   const ImportOptions& options) {
  const std::string& name = options.name.empty() ? path : options.name;
  std::lock_guard write_lock(core->write_mutex);
  HF_ASSIGN_OR_RETURN(const auto reader, SessionReader::Open(core, path, name));
  const SessionManifest& manifest = reader->manifest();
  if (core->keys) HF_RETURN_IF_ERROR(CheckKeys(name, manifest, *core->keys));
  HF_RETURN_IF_ERROR(reader->ReadRest());

  KeysForImport keys(core, manifest.keys);
  {
    std::lock_guard lock(core->db_mutex);
    HF_RETURN_IF_ERROR(keys.FindSpaces());
  }
  ImportReport report;
  const std::string why_no_draft = WhyNoDraft(manifest, *core->keys);
  if (!why_no_draft.empty()) report.notes.push_back(why_no_draft);

  SaveRequest request;
  request.conversation =
      options.conversation.empty() ? manifest.conversation : options.conversation;
  HF_RETURN_IF_ERROR(CheckConversationId(request.conversation));
  HF_ASSIGN_OR_RETURN(const IdChoice choice,
                      ChooseId(core, request.conversation, *reader, options));
  if (choice.is_there) {
    report.notes = {"the conversation is in the store already"};
    report.conversation = choice.id;
    report.n_tokens = manifest.n_tokens;
    report.n_live = manifest.n_live;
    return report;
  }
  request.conversation = choice.id;
  request.tokens = reader->tokens();
  request.content_hashes = reader->content();
  request.n_live = manifest.n_live;
  request.has_draft = manifest.has_draft && why_no_draft.empty();
  request.states = manifest.states;
  for (SaveState& state : request.states) state.has_draft = state.has_draft && request.has_draft;
  request.messages = manifest.messages;
  request.title = manifest.title;
  request.tags = manifest.tags;
  request.source = [&reader](const PartRef& ref, const auto& use) {
    return reader->Give(ref, use);
  };
  HF_ASSIGN_OR_RETURN(const SaveReceipt receipt, SaveLocked(core, request));
  report.conversation = request.conversation;
  report.n_tokens = manifest.n_tokens;
  report.n_live = manifest.n_live;
  report.bytes_written = receipt.bytes_written;
  return report;
}

}  // namespace holdfast
