#include "server/model_service.h"

#include <utility>

namespace holdfast {

std::shared_ptr<const ModelService> ModelState::service() const {
  std::lock_guard lock(mutex_);
  return service_;
}

void ModelState::Set(std::shared_ptr<const ModelService> service) {
  std::lock_guard lock(mutex_);
  service_ = std::move(service);
}

ModelState::Progress ModelState::progress() const {
  std::lock_guard lock(mutex_);
  return progress_;
}

void ModelState::SetProgress(Progress progress) {
  std::lock_guard lock(mutex_);
  progress_ = std::move(progress);
}

Status ModelState::failure() const {
  std::lock_guard lock(mutex_);
  return failure_;
}

void ModelState::SetFailure(Status failure) {
  std::lock_guard lock(mutex_);
  failure_ = std::move(failure);
  service_.reset();
}

}  // namespace holdfast
