#include <fmt/format.h>

#include "store/save_plan.h"
#include "store/store_core.h"

namespace holdfast {
namespace {

// Beyond its parts a segment has headers and padding; the catalogue grows by less than this too.
constexpr uint64_t kSpaceMargin = 4 << 20;

class SegmentWriter {
 public:
  SegmentWriter(StoreCore* core, const SaveRequest& request, SavePlan* plan)
      : core_(core), request_(request), plan_(plan) {}

  // Durable under its final name when OK.
  Status Write(int64_t id) {
    id_ = id;
    HF_ASSIGN_OR_RETURN(
        writer_,
        PartFileWriter::Create(core_->file_system, core_->TemporaryPath(id), core_->SegmentPath(id),
                               PartFileKind::kSegment, static_cast<uint64_t>(id), core_->store_id));
    const StoreKeys& keys = *core_->keys;
    for (size_t i = 0; i < plan_->pages.size(); ++i) {
      PlannedPage& page = plan_->pages[i];
      const auto number = static_cast<int64_t>(i);
      if (page.write_trunk) {
        HF_RETURN_IF_ERROR(Add({StateSection::kTrunk, false, number}, PartType::kTrunkPage,
                               keys.page_bytes, &page.trunk));
      }
      if (page.write_draft) {
        HF_RETURN_IF_ERROR(Add({StateSection::kDraft, false, number}, PartType::kDraftPage,
                               keys.draft_page_bytes, &page.draft));
      }
    }
    for (PlannedState& state : plan_->states) {
      const int64_t position = state.request.position;
      if (state.write_trunk) {
        HF_RETURN_IF_ERROR(Add({StateSection::kTrunk, true, position}, PartType::kTrunkRunning,
                               keys.running_bytes, &state.trunk));
      }
      if (state.write_draft) {
        HF_RETURN_IF_ERROR(Add({StateSection::kDraft, true, position}, PartType::kDraftRunning,
                               keys.draft_running_bytes, &state.draft));
      }
    }
    return writer_->Finish();
  }

  bool sync_failed() const { return writer_ != nullptr && writer_->sync_failed(); }
  uint64_t bytes() const { return writer_->bytes(); }
  int64_t id() const { return id_; }

 private:
  Status Add(const PartRef& ref, PartType type, size_t bytes, PartRow* row) {
    bool used = false;
    HF_RETURN_IF_ERROR(request_.source(ref, [&](std::span<const std::byte> payload) -> Status {
      if (payload.size() != bytes) {
        return InvalidArgumentError(fmt::format("save: {} {} of {} bytes, the layout says {}",
                                                PartTypeName(type), ref.index, payload.size(),
                                                bytes));
      }
      HF_ASSIGN_OR_RETURN(const PartInfo info, writer_->Add(type, ref.index, payload));
      *row = {id_, info.offset, info.bytes, info.hash};
      used = true;
      return OkStatus();
    }));
    if (used) return OkStatus();
    return InvalidArgumentError(
        fmt::format("save: the source gave no bytes for {} {}", PartTypeName(type), ref.index));
  }

  StoreCore* core_;
  const SaveRequest& request_;
  SavePlan* plan_;
  std::unique_ptr<PartFileWriter> writer_;
  int64_t id_ = 0;
};

// Enters one save into the catalogue. Inside a transaction, with db_mutex.
class Committer {
 public:
  Committer(StoreCore* core, const SaveRequest& request, SavePlan* plan)
      : core_(core), db_(core->db.get()), request_(request), plan_(plan) {}

  Status Run(const SegmentWriter* segment, int64_t* durable) {
    HF_ASSIGN_OR_RETURN(core_->spaces, EnsureSpaces(db_, *core_->keys));
    if (segment != nullptr) {
      HF_RETURN_IF_ERROR(RunSql(db_, "INSERT INTO segment(id, bytes, created) VALUES(?, ?, ?)",
                                segment->id(), segment->bytes(), core_->options.now_ms()));
    }
    HF_RETURN_IF_ERROR(PutPages());
    HF_RETURN_IF_ERROR(PutConversation());
    HF_RETURN_IF_ERROR(PutStates());
    HF_RETURN_IF_ERROR(PutMessages());
    HF_RETURN_IF_ERROR(RefreshDurable(core_, request_.conversation));
    Query query(db_, "SELECT durable FROM conversation WHERE id = ?", request_.conversation);
    if (query.Next()) *durable = query.Int(0);
    return query.status();
  }

 private:
  int64_t page_tokens() const { return core_->keys->page_tokens; }
  int64_t ParentOf(int64_t n_full) const { return n_full == 0 ? 0 : plan_->pages[n_full - 1].id; }

  Status PutPages() {
    for (size_t i = 0; i < plan_->pages.size(); ++i) {
      PlannedPage& page = plan_->pages[i];
      if (page.id == 0) {
        HF_RETURN_IF_ERROR(InsertPage(ParentOf(static_cast<int64_t>(i)), &page));
        continue;
      }
      if (page.write_trunk) {
        HF_ASSIGN_OR_RETURN(const int64_t part, InsertPart(db_, page.trunk));
        HF_RETURN_IF_ERROR(
            RunSql(db_, "UPDATE page SET trunk = ?, bad = NULL WHERE id = ?", part, page.id));
      }
      if (page.write_draft) {
        HF_ASSIGN_OR_RETURN(const int64_t part, InsertPart(db_, page.draft));
        HF_RETURN_IF_ERROR(RunSql(db_, "UPDATE page SET draft = ?, draft_space = ? WHERE id = ?",
                                  part, core_->spaces.draft_space, page.id));
      }
    }
    return OkStatus();
  }

  Status InsertPage(int64_t parent, PlannedPage* page) {
    HF_ASSIGN_OR_RETURN(const int64_t trunk, InsertPart(db_, page->trunk));
    int64_t draft = 0;
    if (page->write_draft) {
      HF_ASSIGN_OR_RETURN(draft, InsertPart(db_, page->draft));
    }
    const int64_t draft_space = page->write_draft ? core_->spaces.draft_space : 0;
    PrefixIndex index = core_->Index();
    HF_ASSIGN_OR_RETURN(page->id,
                        index.InsertPage(parent, page->tokens, trunk, draft_space, draft));
    return index.Supersede(parent, page->id, page->tokens, draft_space);
  }

  Status PutConversation() {
    const int64_t n_full = request_.n_live / page_tokens();
    const bool partial = request_.n_live % page_tokens() != 0;
    const TokenSpan rest = plan_->tokens.Part(n_full * page_tokens(), plan_->tokens.size());
    std::optional<std::string> tags;
    if (request_.tags) tags = TagsToText(*request_.tags);
    const int64_t now = core_->options.now_ms();
    return RunSql(
        db_,
        "INSERT INTO conversation(id, space, title, tags, pinned, forked_from, fork_position, "
        "created, used, parent, page, tail, content, n_live, durable) "
        "VALUES(?1, ?2, coalesce(?3, ?13), coalesce(?4, '[]'), 0, ?5, ?6, ?7, ?7, ?8, ?9, ?10, "
        "?11, "
        "?12, 0) ON CONFLICT(id) DO UPDATE SET space = ?2, "
        "title = coalesce(?3, nullif(title, ''), ?13), "
        "tags = coalesce(?4, tags), used = ?7, parent = ?8, page = ?9, tail = ?10, content = ?11, "
        "n_live = ?12, bad = NULL",
        request_.conversation, core_->spaces.space, request_.title, tags, request_.forked_from,
        request_.fork_position, now, ParentOf(n_full), partial ? plan_->pages.back().id : 0,
        TokenBytes(rest), ContentBytes(rest), request_.n_live, request_.title_if_none);
  }

  Status PutStates() {
    // What was the live end is the end of a turn from now on, unless it is named again.
    HF_RETURN_IF_ERROR(RunSql(db_, "UPDATE kept SET kind = ? WHERE conversation = ? AND kind = ?",
                              static_cast<int>(StateKind::kTurnEnd), request_.conversation,
                              static_cast<int>(StateKind::kLiveEnd)));
    for (PlannedState& state : plan_->states) {
      HF_RETURN_IF_ERROR(PutState(&state));
      HF_RETURN_IF_ERROR(
          RunSql(db_, "INSERT OR REPLACE INTO kept(conversation, state, kind) VALUES(?, ?, ?)",
                 request_.conversation, state.id, static_cast<int>(state.request.kind)));
    }
    PrefixIndex index = core_->Index();
    for (const int64_t position : request_.drop_states) {
      const int64_t n_full = position / page_tokens();
      if (n_full > static_cast<int64_t>(plan_->pages.size())) continue;
      HF_ASSIGN_OR_RETURN(const auto row,
                          index.FindState(ParentOf(n_full), position,
                                          plan_->tokens.Part(n_full * page_tokens(), position)));
      if (!row) continue;
      HF_RETURN_IF_ERROR(RunSql(db_, "DELETE FROM kept WHERE conversation = ? AND state = ?",
                                request_.conversation, row->id));
    }
    return OkStatus();
  }

  Status PutState(PlannedState* state) {
    int64_t trunk = 0, draft = 0;
    if (state->write_trunk) {
      HF_ASSIGN_OR_RETURN(trunk, InsertPart(db_, state->trunk));
    }
    if (state->write_draft) {
      HF_ASSIGN_OR_RETURN(draft, InsertPart(db_, state->draft));
    }
    const int64_t position = state->request.position;
    const int64_t n_full = position / page_tokens();
    const int64_t page = state->tail.ids.empty() ? 0 : plan_->pages[n_full].id;
    if (state->id == 0) {
      HF_RETURN_IF_ERROR(
          RunSql(db_,
                 "INSERT INTO state(space, parent, position, tail, content, page, trunk) "
                 "VALUES(?, ?, ?, ?, ?, ?, ?)",
                 core_->spaces.space, ParentOf(n_full), position, TokenBytes(state->tail),
                 ContentBytes(state->tail), page, trunk));
      state->id = db_->last_insert_id();
    } else if (state->write_trunk) {
      HF_RETURN_IF_ERROR(RunSql(db_,
                                "UPDATE state SET trunk = ?, page = ?, bad = NULL, "
                                "next_token = NULL, row = NULL WHERE id = ?",
                                trunk, page, state->id));
    }
    // The page of an earlier save may be out of use, or lack the draft part this one has.
    if (page != 0) {
      HF_RETURN_IF_ERROR(RunSql(db_,
                                "UPDATE state SET page = ?1 WHERE id = ?2 AND (?3 OR page IN "
                                "(SELECT id FROM page WHERE bad IS NOT NULL))",
                                page, state->id, request_.has_draft));
    }
    if (state->write_draft) {
      HF_RETURN_IF_ERROR(RunSql(db_, "UPDATE state SET draft = ?, draft_space = ? WHERE id = ?",
                                draft, core_->spaces.draft_space, state->id));
    }
    if (!state->request.proof) return OkStatus();
    return RunSql(db_, "UPDATE state SET next_token = ?, row = ? WHERE id = ?",
                  static_cast<int64_t>(state->request.proof->next_token), state->request.proof->row,
                  state->id);
  }

  Status PutMessages() {
    const std::string& id = request_.conversation;
    if (!request_.messages) {
      Query query(db_, "SELECT min(number) FROM message WHERE conversation = ? AND token_end > ?",
                  id, static_cast<int64_t>(request_.tokens.size()));
      if (!query.Next() || query.IsNull(0)) return query.status();
      return DropMessagesFrom(query.Int(0));
    }
    // Those that are there already, which is all but the last turn's, are not written again.
    const std::vector<StoredMessage>& messages = *request_.messages;
    HF_ASSIGN_OR_RETURN(size_t number, CountEqualMessages(messages));
    HF_RETURN_IF_ERROR(DropMessagesFrom(static_cast<int64_t>(number)));
    for (; number < messages.size(); ++number) {
      const StoredMessage& message = messages[number];
      const auto n = static_cast<int64_t>(number);
      HF_RETURN_IF_ERROR(RunSql(db_,
                                "INSERT INTO message(conversation, number, role, content, hash, "
                                "token_begin, token_end) VALUES(?, ?, ?, ?, ?, ?, ?)",
                                id, n, message.role, message.content, message.hash,
                                message.token_begin, message.token_end));
      for (size_t i = 0; i < message.tool_call_ids.size(); ++i) {
        HF_RETURN_IF_ERROR(
            RunSql(db_, "INSERT INTO tool_call(conversation, number, place, id) VALUES(?, ?, ?, ?)",
                   id, n, static_cast<int64_t>(i), message.tool_call_ids[i]));
      }
    }
    return OkStatus();
  }

  Result<size_t> CountEqualMessages(const std::vector<StoredMessage>& messages) {
    Query query(db_,
                "SELECT number, role, content, hash, token_begin, token_end FROM message "
                "WHERE conversation = ? ORDER BY number",
                request_.conversation);
    size_t n = 0;
    for (; n < messages.size() && query.Next(); ++n) {
      const StoredMessage& m = messages[n];
      if (query.Int(0) != static_cast<int64_t>(n) || query.Hash(3) != m.hash ||
          query.Int(4) != m.token_begin || query.Int(5) != m.token_end || query.Text(1) != m.role ||
          query.Text(2) != m.content) {
        break;
      }
    }
    HF_RETURN_IF_ERROR(query.status());
    // Tool calls go with their message; equal hashes need not mean equal ids.
    for (size_t i = 0; i < n; ++i) {
      Query calls(db_,
                  "SELECT id FROM tool_call WHERE conversation = ? AND number = ? ORDER BY place",
                  request_.conversation, static_cast<int64_t>(i));
      std::vector<std::string> ids;
      while (calls.Next()) ids.push_back(calls.Text(0));
      HF_RETURN_IF_ERROR(calls.status());
      if (ids != messages[i].tool_call_ids) return i;
    }
    return n;
  }

  Status DropMessagesFrom(int64_t number) {
    HF_RETURN_IF_ERROR(RunSql(db_, "DELETE FROM message WHERE conversation = ? AND number >= ?",
                              request_.conversation, number));
    return RunSql(db_, "DELETE FROM tool_call WHERE conversation = ? AND number >= ?",
                  request_.conversation, number);
  }

  StoreCore* core_;
  Database* db_;
  const SaveRequest& request_;
  SavePlan* plan_;
};

Status CheckFreeSpace(StoreCore* core, uint64_t bytes) {
  HF_ASSIGN_OR_RETURN(const uint64_t free_bytes, core->file_system->FreeBytes(core->segments_dir));
  if (bytes + kSpaceMargin <= free_bytes) return OkStatus();
  return ResourceExhaustedError(
      fmt::format("store {}: {} bytes free on the disk, the save needs {}", core->options.dir,
                  free_bytes, bytes + kSpaceMargin));
}

Result<uint64_t> SegmentBytes(StoreCore* core) {
  std::lock_guard lock(core->db_mutex);
  Query query(core->db.get(), "SELECT coalesce(sum(bytes), 0) FROM segment");
  const int64_t bytes = query.Next() ? query.Int(0) : 0;
  HF_RETURN_IF_ERROR(query.status());
  return static_cast<uint64_t>(bytes);
}

Result<SavePlan> Plan(StoreCore* core, const SaveRequest& request) {
  std::lock_guard lock(core->db_mutex);
  return PlanSave(core, request);
}

// A plan that fits the budget. Making room may remove what the first plan meant to share.
Result<SavePlan> PlanWithinBudget(StoreCore* core, const SaveRequest& request) {
  HF_ASSIGN_OR_RETURN(SavePlan plan, Plan(core, request));
  const uint64_t budget = core->options.disk_budget_bytes;
  if (plan.bytes == 0 || budget == 0) return plan;
  for (int attempt = 0; attempt < 2; ++attempt) {
    HF_ASSIGN_OR_RETURN(const uint64_t used, SegmentBytes(core));
    if (used + plan.bytes <= budget) return plan;
    HF_RETURN_IF_ERROR(MakeRoom(core, plan.bytes, request.conversation));
    HF_ASSIGN_OR_RETURN(plan, Plan(core, request));
  }
  HF_ASSIGN_OR_RETURN(const uint64_t used, SegmentBytes(core));
  if (used + plan.bytes <= budget) return plan;
  return ResourceExhaustedError(
      fmt::format("store {}: {} bytes used of a budget of {}, the save needs {}", core->options.dir,
                  used, budget, plan.bytes));
}

Result<std::unique_ptr<SegmentWriter>> WriteSegment(StoreCore* core, const SaveRequest& request,
                                                    SavePlan* plan) {
  auto segment = std::make_unique<SegmentWriter>(core, request, plan);
  for (int attempt = 0;; ++attempt) {
    int64_t id;
    {
      std::lock_guard lock(core->db_mutex);
      HF_ASSIGN_OR_RETURN(id, core->NewSegmentId());
    }
    const Status status = segment->Write(id);
    if (status.ok()) return segment;
    // After a failed fsync the file is lost even if it reads well; one more try with a new one.
    if (!segment->sync_failed() || attempt == 1) return status;
    segment = std::make_unique<SegmentWriter>(core, request, plan);
  }
}

void CountWrite(StoreCore* core, uint64_t bytes) {
  std::lock_guard lock(core->writes_mutex);
  core->writes.emplace_back(core->options.now_ms(), bytes);
}

}  // namespace

Result<SaveReceipt> SaveLocked(StoreCore* core, const SaveRequest& request) {
  HF_RETURN_IF_ERROR(core->NeedKeys());
  HF_RETURN_IF_ERROR(CheckSaveRequest(*core->keys, request));
  HF_RETURN_IF_ERROR(core->CheckPresent());
  HF_ASSIGN_OR_RETURN(SavePlan plan, PlanWithinBudget(core, request));
  SaveReceipt receipt;
  std::unique_ptr<SegmentWriter> segment;
  if (plan.bytes > 0) {
    HF_RETURN_IF_ERROR(CheckFreeSpace(core, plan.bytes));
    HF_ASSIGN_OR_RETURN(segment, WriteSegment(core, request, &plan));
    receipt.bytes_written = segment->bytes();
    receipt.segment = fmt::format("{:016x}.seg", segment->id());
    CountWrite(core, segment->bytes());
  }
  for (const PlannedPage& page : plan.pages) {
    ++(page.write_trunk ? receipt.n_pages_written : receipt.n_pages_shared);
  }
  std::lock_guard lock(core->db_mutex);
  const SpaceIds spaces_before = core->spaces;
  Committer committer(core, request, &plan);
  const Status status =
      core->Change([&] { return committer.Run(segment.get(), &receipt.durable_tokens); });
  if (!status.ok()) {
    // The segment stays until the next GC: whether the commit reached the disk is known only after
    // a later one has.
    core->spaces = spaces_before;
    return status;
  }
  return receipt;
}

Result<SaveReceipt> SaveConversation(StoreCore* core, const SaveRequest& request) {
  std::lock_guard lock(core->write_mutex);
  return SaveLocked(core, request);
}

}  // namespace holdfast
