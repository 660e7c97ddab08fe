#ifndef HOLDFAST_STORE_SAVE_PLAN_H_
#define HOLDFAST_STORE_SAVE_PLAN_H_

// What a save has to write: everything it names that is not stored yet, sound and complete.

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "store/prefix_index.h"
#include "store/store_core.h"

namespace holdfast {

struct PlannedPage {
  TokenSpan tokens;
  int64_t id = 0;  // of its row; 0: to be inserted
  bool write_trunk = false, write_draft = false;
  PartRow trunk, draft;  // filled in by the writing
};

struct PlannedState {
  SaveState request;
  TokenSpan tail;  // tokens since the last full page
  int64_t id = 0;
  bool write_trunk = false, write_draft = false;
  PartRow trunk, draft;
};

struct SavePlan {
  TokenSpan tokens;
  std::vector<PlannedPage> pages;  // the last one may be partial, or a longer stored one
  std::vector<PlannedState> states;
  uint64_t bytes = 0;  // of the segment to write; 0: none is needed
};

// kInvalidArgument or kOutOfRange for a request no engine with these keys makes.
Status CheckSaveRequest(const StoreKeys& keys, const SaveRequest& request);
// The request must have passed the check; its spans must outlive the plan. Needs db_mutex.
Result<SavePlan> PlanSave(StoreCore* core, const SaveRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_STORE_SAVE_PLAN_H_
