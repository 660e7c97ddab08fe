#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "store/parallel_read.h"
#include "store/store_core.h"

namespace holdfast {
namespace {

struct LoadPart {
  PartRef ref;
  int64_t id = 0;
  PartRow row;
};

// What a load reads, and the files it lies in: open already, so that GC may remove their names.
struct LoadPlan {
  std::vector<LoadPart> trunk, draft;
  bool has_draft = false;
  std::string note;
  std::map<int64_t, std::unique_ptr<File>> files;
};

std::string Describe(const PartRef& ref) {
  return fmt::format("{} {} {}", ref.section == StateSection::kTrunk ? "trunk" : "draft",
                     ref.running ? "running state at" : "page", ref.index);
}

class Planner {
 public:
  explicit Planner(StoreCore* core) : core_(core) {}

  // Needs db_mutex. `failed_part` is the part that made it fail with kDataLoss.
  Status Run(const StoredPrefix& prefix, const LoadOptions& options, LoadPlan* plan,
             int64_t* failed_part) {
    const StoreKeys& keys = *core_->keys;
    const int64_t n_pages = (prefix.position + keys.page_tokens - 1) / keys.page_tokens;
    if (prefix.position < 1 || static_cast<int64_t>(prefix.page_ids.size()) != n_pages) {
      return InvalidArgumentError(fmt::format("load: {} pages for position {}, wanted {}",
                                              prefix.page_ids.size(), prefix.position, n_pages));
    }
    const int64_t draft_space = core_->spaces.draft_space;
    plan->has_draft = draft_space != 0;
    for (int64_t i = 0; i < n_pages; ++i) {
      HF_ASSIGN_OR_RETURN(const PageRow page, ReadPage(core_->db.get(), prefix.page_ids[i]));
      if (page.bad) return Gone(fmt::format("page {} is quarantined", i));
      if (page.draft_space != draft_space) plan->has_draft = false;
      if (i < options.first_page) continue;
      plan->trunk.push_back({{StateSection::kTrunk, false, i}, page.trunk});
      plan->draft.push_back({{StateSection::kDraft, false, i}, page.draft});
    }
    HF_RETURN_IF_ERROR(AddState(prefix, draft_space, plan));
    for (LoadPart& part : plan->trunk) {
      *failed_part = part.id;
      HF_RETURN_IF_ERROR(Resolve(&part, plan));
    }
    *failed_part = 0;
    DecideDraft(options, plan);
    return OkStatus();
  }

 private:
  static Status Gone(const std::string& why) {
    return NotFoundError(fmt::format("load: the stored prefix is not usable any more: {}", why));
  }

  Status AddState(const StoredPrefix& prefix, int64_t draft_space, LoadPlan* plan) {
    Query query(core_->db.get(),
                "SELECT trunk, draft, draft_space, bad, position FROM state WHERE id = ? AND "
                "space = ?",
                prefix.state_id, core_->spaces.space);
    if (!query.Next()) {
      HF_RETURN_IF_ERROR(query.status());
      return Gone("its state was removed");
    }
    if (!query.IsNull(3)) return Gone("its state is quarantined");
    if (query.Int(4) != prefix.position) return Gone("its state is another one");
    plan->trunk.push_back({{StateSection::kTrunk, true, prefix.position}, query.Int(0)});
    plan->draft.push_back({{StateSection::kDraft, true, prefix.position}, query.Int(1)});
    if (query.Int(2) != draft_space) plan->has_draft = false;
    return OkStatus();
  }

  // Sizes come from this engine's layout; the catalogue must agree before a byte is read.
  Status Resolve(LoadPart* part, LoadPlan* plan) {
    const StoreKeys& keys = *core_->keys;
    const bool draft = part->ref.section == StateSection::kDraft;
    const uint64_t wanted = part->ref.running
                                ? (draft ? keys.draft_running_bytes : keys.running_bytes)
                                : (draft ? keys.draft_page_bytes : keys.page_bytes);
    HF_ASSIGN_OR_RETURN(part->row, ReadPart(core_->db.get(), part->id));
    if (part->row.bytes != wanted) {
      return DataLossError(fmt::format("store: {} of {} bytes, this engine's layout says {}",
                                       Describe(part->ref), part->row.bytes, wanted));
    }
    std::unique_ptr<File>& file = plan->files[part->row.segment];
    if (file != nullptr) return OkStatus();
    auto opened = core_->file_system->Open(core_->SegmentPath(part->row.segment), OpenMode::kRead);
    if (opened.status().code() == StatusCode::kNotFound) {
      HF_RETURN_IF_ERROR(core_->CheckPresent());
      return DataLossError("store: segment is missing: " + opened.status().message());
    }
    HF_RETURN_IF_ERROR(opened.status());
    file = std::move(*opened);
    return OkStatus();
  }

  // Whole or not at all.
  void DecideDraft(const LoadOptions& options, LoadPlan* plan) {
    if (core_->keys->draft_layout_key == 0 || !options.draft) {
      plan->has_draft = false;
      return;
    }
    if (!plan->has_draft) {
      plan->note = "the draft part is not stored for every page; resumed without it";
      return;
    }
    for (LoadPart& part : plan->draft) {
      const Status status = Resolve(&part, plan);
      if (status.ok()) continue;
      plan->has_draft = false;
      plan->note = "the draft part is left out: " + status.message();
      return;
    }
  }

  StoreCore* core_;
};

// Reads `parts` in batches into the sink's buffers. The first failed part is in `failed_part`.
Status ReadParts(StoreCore* core, LoadPlan* plan, const std::vector<LoadPart>& parts,
                 const PartSink& sink, uint64_t* bytes_read, int64_t* failed_part) {
  const int n_threads =
      core->options.n_read_threads > 0 ? core->options.n_read_threads : DefaultReadThreads();
  for (size_t begin = 0; begin < parts.size(); begin += kLoadBatch) {
    const std::span batch(parts.data() + begin, std::min(kLoadBatch, parts.size() - begin));
    std::vector<PartRef> refs;
    for (const LoadPart& part : batch) refs.push_back(part.ref);
    bool filled = false;
    const auto fill = [&](std::span<const std::span<std::byte>> buffers) -> Status {
      if (buffers.size() != batch.size()) {
        return InvalidArgumentError(
            fmt::format("load: {} buffers for {} parts", buffers.size(), batch.size()));
      }
      std::vector<ReadJob> jobs;
      for (size_t i = 0; i < batch.size(); ++i) {
        const PartRow& row = batch[i].row;
        if (buffers[i].size() != row.bytes) {
          return InvalidArgumentError(fmt::format("load: {} into a buffer of {} bytes, wanted {}",
                                                  Describe(batch[i].ref), buffers[i].size(),
                                                  row.bytes));
        }
        jobs.push_back(
            {plan->files.at(row.segment).get(), row.offset, buffers[i], row.hash,
             fmt::format("{}: {}", core->SegmentPath(row.segment), Describe(batch[i].ref))});
      }
      ReadInParallel(&jobs, n_threads);
      for (size_t i = 0; i < jobs.size(); ++i) {
        if (jobs[i].status.ok()) continue;
        *failed_part = batch[i].id;
        return jobs[i].status;
      }
      for (const ReadJob& job : jobs) *bytes_read += job.dst.size();
      filled = true;
      return OkStatus();
    };
    HF_RETURN_IF_ERROR(sink(refs, fill));
    if (!filled) return InvalidArgumentError("load: the sink did not take the bytes");
  }
  return OkStatus();
}

// Quarantines the part when it was damage, and says so.
Status Failed(StoreCore* core, const Status& status, int64_t part) {
  if (status.code() != StatusCode::kDataLoss || part == 0) return status;
  const Status done = QuarantinePartUsers(core, part, status.message());
  return DataLossError(status.message() + (done.ok()
                                               ? "; quarantined"
                                               : "; could not be quarantined: " + done.message()));
}

}  // namespace

Result<LoadReport> LoadPrefix(StoreCore* core, const StoredPrefix& prefix,
                              const LoadOptions& options) {
  HF_RETURN_IF_ERROR(core->NeedKeys());
  if (!options.sink) return InvalidArgumentError("load: no sink for the bytes");
  LoadPlan plan;
  int64_t failed_part = 0;
  Status status;
  {
    std::lock_guard lock(core->db_mutex);
    status = Planner(core).Run(prefix, options, &plan, &failed_part);
  }
  if (!status.ok()) return Failed(core, status, failed_part);
  LoadReport report;
  status = ReadParts(core, &plan, plan.trunk, options.sink, &report.bytes_read, &failed_part);
  if (!status.ok()) return Failed(core, status, failed_part);
  report.note = plan.note;
  if (!plan.has_draft) return report;
  status = ReadParts(core, &plan, plan.draft, options.sink, &report.bytes_read, &failed_part);
  report.draft_loaded = status.ok();
  if (!status.ok()) {
    report.note = "the draft part is left out: " + Failed(core, status, failed_part).message();
  }
  return report;
}

}  // namespace holdfast
