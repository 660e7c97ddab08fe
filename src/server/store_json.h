#ifndef HOLDFAST_SERVER_STORE_JSON_H_
#define HOLDFAST_SERVER_STORE_JSON_H_

// What the store tells, as JSON: the same over HTTP and from `holdfast sessions --json`.

#include "server/json.h"
#include "store/store_types.h"

namespace holdfast {

Json ConversationJson(const ConversationInfo& info);
// With its states and messages.
Json ConversationJson(const ConversationDetail& detail);
Json DiskUsageJson(const DiskUsage& usage);
Json GcJson(const GcReport& report);
Json VerifyJson(const VerifyReport& report);
Json ImportJson(const ImportReport& report);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_STORE_JSON_H_
