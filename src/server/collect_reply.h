#ifndef HOLDFAST_SERVER_COLLECT_REPLY_H_
#define HOLDFAST_SERVER_COLLECT_REPLY_H_

// For tests: all bytes of a reply, as a connection would gather them.

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "server/http_message.h"

namespace holdfast {

inline HttpResponse Collect(ResponseSource* source) {
  // A waker that another thread has just taken may be called after it is replaced: what it touches
  // outlives this function.
  struct Alarm {
    std::mutex mutex;
    std::condition_variable changed;
    bool woken = false;
  };
  const auto alarm = std::make_shared<Alarm>();
  source->SetWaker([alarm] {
    const std::lock_guard lock(alarm->mutex);
    alarm->woken = true;
    alarm->changed.notify_all();
  });
  HttpResponse collected;
  std::string bytes;
  while (true) {
    ResponsePart part = source->Take();
    if (part.head) collected = *part.head;
    if (part.whole) collected = *part.whole;
    bytes += part.bytes;
    if (part.done || part.broken) break;
    std::unique_lock lock(alarm->mutex);
    const bool woken =
        alarm->changed.wait_for(lock, std::chrono::minutes(2), [&] { return alarm->woken; });
    if (!woken) {
      ADD_FAILURE() << "the reply does not go on after " << bytes.size() << " bytes";
      break;
    }
    alarm->woken = false;
  }
  source->SetWaker(nullptr);
  if (!bytes.empty()) collected.body = std::move(bytes);
  return collected;
}

inline HttpResponse Collect(HttpReply reply) {
  return reply.source ? Collect(reply.source.get()) : std::move(reply.response);
}

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_COLLECT_REPLY_H_
