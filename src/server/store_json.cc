#include "server/store_json.h"

#include <string>
#include <utility>

namespace holdfast {
namespace {

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

Json ConversationJson(const ConversationInfo& info) {
  Json json;
  json["id"] = info.id;
  json["title"] = info.title;
  json["tags"] = info.tags;
  json["pinned"] = info.pinned;
  json["quarantined"] = TextOrNull(info.quarantined);
  json["forked_from"] = TextOrNull(info.forked_from);
  json["fork_position"] = info.fork_position;
  json["n_tokens"] = info.n_tokens;
  json["durable_tokens"] = info.durable_tokens;
  json["n_states"] = info.n_states;
  json["n_messages"] = info.n_messages;
  json["created_ms"] = info.created_ms;
  json["used_ms"] = info.used_ms;
  json["bytes"] = info.bytes;
  json["model"] = info.model;
  json["numerics_key"] = info.numerics_key;
  return json;
}

Json ConversationJson(const ConversationDetail& detail) {
  Json json = ConversationJson(detail.info);
  json["states"] = Json::array();
  for (const StateInfo& state : detail.states) {
    Json item;
    item["position"] = state.position;
    item["kind"] = StateKindName(state.kind);
    item["has_draft"] = state.has_draft;
    item["has_proof"] = state.has_proof;
    item["quarantined"] = TextOrNull(state.quarantined);
    json["states"].push_back(std::move(item));
  }
  json["messages"] = Json::array();
  for (const StoredMessage& message : detail.messages) {
    Json item;
    item["role"] = message.role;
    item["content"] = message.content;
    item["tool_call_ids"] = message.tool_call_ids;
    item["token_begin"] = message.token_begin;
    item["token_end"] = message.token_end;
    json["messages"].push_back(std::move(item));
  }
  return json;
}

Json DiskUsageJson(const DiskUsage& usage) {
  Json json;
  json["segment_bytes"] = usage.segment_bytes;
  json["live_bytes"] = usage.live_bytes;
  json["catalogue_bytes"] = usage.catalogue_bytes;
  json["quarantine_bytes"] = usage.quarantine_bytes;
  json["conversation_bytes"] = usage.conversation_bytes;
  json["n_segments"] = usage.n_segments;
  json["n_conversations"] = usage.n_conversations;
  json["n_pages"] = usage.n_pages;
  json["n_states"] = usage.n_states;
  return json;
}

Json GcJson(const GcReport& report) {
  Json json;
  json["bytes_freed"] = report.bytes_freed;
  json["bytes_rewritten"] = report.bytes_rewritten;
  json["segments_deleted"] = report.segments_deleted;
  json["segments_rewritten"] = report.segments_rewritten;
  json["orphans_removed"] = report.orphans_removed;
  json["orphans_kept"] = report.orphans_kept;
  return json;
}

Json VerifyJson(const VerifyReport& report) {
  Json json;
  json["parts_checked"] = report.parts_checked;
  json["bytes_checked"] = report.bytes_checked;
  json["problems"] = report.problems;
  return json;
}

Json ImportJson(const ImportReport& report) {
  Json json;
  json["id"] = report.conversation;
  json["ok"] = true;
  json["n_tokens"] = report.n_tokens;
  json["n_computed"] = report.n_live;
  json["bytes_written"] = report.bytes_written;
  json["notes"] = report.notes;
  return json;
}

}  // namespace holdfast
