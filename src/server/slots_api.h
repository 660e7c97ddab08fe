#ifndef HOLDFAST_SERVER_SLOTS_API_H_
#define HOLDFAST_SERVER_SLOTS_API_H_

// llama.cpp's slots (slot_names.h). Fields: docs/http_api.md.

#include <memory>

#include "server/http_message.h"
#include "server/model_service.h"

namespace holdfast {

// GET /slots: the conversation of each, and what is being computed.
HttpReply HandleSlots(const std::shared_ptr<const ModelService>& model, const HttpRequest& request);
// POST /slots/N?action=save|restore {"filename": NAME}, POST /slots/N?action=erase
HttpReply HandleSlotAction(const std::shared_ptr<const ModelService>& model,
                           const HttpRequest& request);

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_SLOTS_API_H_
