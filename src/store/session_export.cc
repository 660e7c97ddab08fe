#include <fmt/format.h>

#include <map>

#include "store/session_manifest.h"
#include "store/store_core.h"

namespace holdfast {
namespace {

struct ExportPart {
  PartType type;
  int64_t index;
  PartRow row;
};

// Everything of one conversation that goes into its file, with the segments open already.
struct ExportPlan {
  SessionManifest manifest;
  TokenList tokens;
  std::vector<ExportPart> parts;
  std::map<int64_t, std::unique_ptr<File>> files;
};

struct ExportState {
  SaveState state;
  int64_t trunk = 0, draft = 0, draft_space = 0;
};

// Needs db_mutex.
class Planner {
 public:
  explicit Planner(StoreCore* core) : core_(core), db_(core->db.get()) {}

  Result<ExportPlan> Run(std::string_view id) {
    HF_ASSIGN_OR_RETURN(const ConversationRow row, ReadConversation(db_, id));
    if (!row.bad.empty()) {
      return FailedPreconditionError(
          fmt::format("conversation {} is quarantined: {}", id, row.bad));
    }
    HF_RETURN_IF_ERROR(ReadPages(row));
    HF_RETURN_IF_ERROR(ReadStates(row));
    HF_RETURN_IF_ERROR(FillManifest(row));
    HF_RETURN_IF_ERROR(AddParts());
    plan_.tokens = row.tokens;
    return std::move(plan_);
  }

 private:
  Status ReadPages(const ConversationRow& row) {
    std::vector<int64_t> ids = row.page_ids;
    if (row.page != 0) ids.push_back(row.page);
    for (const int64_t id : ids) {
      HF_ASSIGN_OR_RETURN(const PageRow page, ReadPage(db_, id));
      if (page.bad) {
        return FailedPreconditionError(
            fmt::format("conversation {}: page {} is quarantined", row.id, pages_.size()));
      }
      pages_.push_back(page);
    }
    draft_space_ = pages_.empty() ? 0 : pages_[0].draft_space;
    for (const PageRow& page : pages_) {
      if (page.draft_space != draft_space_) draft_space_ = 0;
    }
    return OkStatus();
  }

  // Those on the conversation's own tokens; what it kept from before an edit stays behind.
  Status ReadStates(const ConversationRow& row) {
    Query query(db_,
                "SELECT state.parent, position, tail, content, trunk, draft, draft_space, "
                "next_token, row, kind FROM kept JOIN state ON state.id = kept.state "
                "WHERE conversation = ? AND state.space = ? AND state.bad IS NULL "
                "AND position BETWEEN 1 AND ? ORDER BY position",
                row.id, row.space, row.n_live);
    while (query.Next()) {
      ExportState item;
      item.state.position = query.Int(1);
      const int64_t n_full = item.state.position / row.page_tokens;
      const int64_t parent = n_full == 0 ? 0 : row.page_ids[n_full - 1];
      HF_ASSIGN_OR_RETURN(const TokenList tail, TokensOfRow(query, 2, 3, row.page_tokens));
      const TokenSpan own = row.tokens.span().Part(n_full * row.page_tokens, item.state.position);
      if (query.Int(0) != parent || tail.span().size() != own.size() ||
          CommonPrefix(tail.span(), own) != own.size()) {
        continue;
      }
      item.trunk = query.Int(4);
      item.draft = query.Int(5);
      item.draft_space = query.Int(6);
      const std::optional<Hash128> hash = query.Hash(8);
      if (!query.IsNull(7) && hash) {
        item.state.proof = StateProof{static_cast<int32_t>(query.Int(7)), *hash};
      }
      item.state.kind = static_cast<StateKind>(query.Int(9));
      item.state.has_draft = draft_space_ != 0 && item.draft_space == draft_space_;
      states_.push_back(item);
    }
    return query.status();
  }

  Status FillManifest(const ConversationRow& row) {
    SessionManifest& manifest = plan_.manifest;
    HF_ASSIGN_OR_RETURN(manifest.keys, ReadSpaceKeys(db_, {row.space, draft_space_}));
    manifest.conversation = row.id;
    manifest.n_tokens = row.tokens.span().size();
    manifest.n_live = row.n_live;
    manifest.has_content = !row.tokens.span().is_text();
    manifest.has_draft = draft_space_ != 0;
    for (const ExportState& item : states_) manifest.states.push_back(item.state);
    HF_ASSIGN_OR_RETURN(manifest.messages, ReadMessages(db_, row.id, manifest.n_tokens));
    Query query(db_, "SELECT title, tags, created FROM conversation WHERE id = ?", row.id);
    if (query.Next()) {
      manifest.title = query.Text(0);
      manifest.tags = TagsFromText(query.Text(1));
      manifest.created_ms = std::max<int64_t>(query.Int(2), 0);
    }
    return query.status();
  }

  Status AddParts() {
    const auto n_pages = static_cast<int64_t>(pages_.size());
    for (int64_t i = 0; i < n_pages; ++i) {
      HF_RETURN_IF_ERROR(AddPart(PartType::kTrunkPage, i, pages_[i].trunk));
    }
    for (int64_t i = 0; i < n_pages && plan_.manifest.has_draft; ++i) {
      HF_RETURN_IF_ERROR(AddPart(PartType::kDraftPage, i, pages_[i].draft));
    }
    for (const ExportState& item : states_) {
      const int64_t position = item.state.position;
      HF_RETURN_IF_ERROR(AddPart(PartType::kTrunkRunning, position, item.trunk));
      if (!item.state.has_draft) continue;
      HF_RETURN_IF_ERROR(AddPart(PartType::kDraftRunning, position, item.draft));
    }
    return OkStatus();
  }

  Status AddPart(PartType type, int64_t index, int64_t id) {
    HF_ASSIGN_OR_RETURN(const PartRow row, ReadPart(db_, id));
    std::unique_ptr<File>& file = plan_.files[row.segment];
    if (file == nullptr) {
      HF_ASSIGN_OR_RETURN(
          file, core_->file_system->Open(core_->SegmentPath(row.segment), OpenMode::kRead));
    }
    plan_.parts.push_back({type, index, row});
    return OkStatus();
  }

  StoreCore* core_;
  Database* db_;
  ExportPlan plan_;
  std::vector<PageRow> pages_;
  std::vector<ExportState> states_;
  int64_t draft_space_ = 0;
};

// A file that is passed on as it is written, from its beginning to its end.
class SinkFile : public File {
 public:
  explicit SinkFile(ByteSink sink) : sink_(std::move(sink)) {}

  Status WriteAt(uint64_t offset, std::span<const std::byte> src) override {
    if (offset < end_) {
      return InternalError(fmt::format("written at {}, behind it at {}", offset, end_));
    }
    const std::vector<std::byte> gap(offset - end_);
    if (!gap.empty()) HF_RETURN_IF_ERROR(sink_(gap));
    end_ = offset + src.size();
    return src.empty() ? OkStatus() : sink_(src);
  }
  Result<size_t> ReadAt(uint64_t, std::span<std::byte>) override { return WriteOnly(); }
  Status Truncate(uint64_t) override { return WriteOnly(); }
  Status Sync() override { return OkStatus(); }
  Result<uint64_t> Size() override { return end_; }

 private:
  static Status WriteOnly() { return UnimplementedError("a stream is only written"); }

  const ByteSink sink_;
  uint64_t end_ = 0;
};

// With a `sink` to that, else to `path`.
Status WriteSession(StoreCore* core, const ExportPlan& plan, const std::string& path,
                    const ByteSink& sink) {
  const std::string manifest = SessionManifestToText(plan.manifest);
  const std::span<const std::byte> manifest_bytes = std::as_bytes(std::span(manifest));
  const uint64_t uid = Hash128Of(manifest_bytes).low;
  std::unique_ptr<PartFileWriter> writer;
  if (sink) {
    HF_ASSIGN_OR_RETURN(writer, PartFileWriter::CreateOn(std::make_unique<SinkFile>(sink),
                                                         PartFileKind::kSession, uid));
  } else {
    const std::string temporary = fmt::format("{}.{:016x}.tmp", path, core->options.random());
    HF_ASSIGN_OR_RETURN(writer, PartFileWriter::Create(core->file_system, temporary, path,
                                                       PartFileKind::kSession, uid, 0));
  }
  HF_RETURN_IF_ERROR(writer->Add(PartType::kManifest, 0, manifest_bytes).status());
  HF_RETURN_IF_ERROR(
      writer->Add(PartType::kTokens, 0, std::as_bytes(std::span(plan.tokens.ids))).status());
  if (plan.manifest.has_content) {
    HF_RETURN_IF_ERROR(
        writer->Add(PartType::kContent, 0, std::as_bytes(std::span(plan.tokens.content))).status());
  }
  std::vector<std::byte> buffer;
  for (const ExportPart& part : plan.parts) {
    buffer.resize(part.row.bytes);
    HF_RETURN_IF_ERROR(ReadChecked(plan.files.at(part.row.segment).get(), part.row.offset, buffer,
                                   part.row.hash, core->SegmentPath(part.row.segment)));
    HF_RETURN_IF_ERROR(writer->Add(part.type, part.index, buffer).status());
  }
  return writer->Finish();
}

}  // namespace

Status ExportConversation(StoreCore* core, std::string_view id, const std::string& path,
                          const ByteSink& sink) {
  ExportPlan plan;
  {
    std::lock_guard lock(core->db_mutex);
    HF_ASSIGN_OR_RETURN(plan, Planner(core).Run(id));
  }
  return WriteSession(core, plan, path, sink);
}

}  // namespace holdfast
