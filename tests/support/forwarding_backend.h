#ifndef HOLDFAST_TESTS_SUPPORT_FORWARDING_BACKEND_H_
#define HOLDFAST_TESTS_SUPPORT_FORWARDING_BACKEND_H_

#include <memory>
#include <utility>

#include "ops/backend.h"

namespace holdfast {

// Passes every call on: tests derive from it and change one thing.
class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string_view name() const override { return inner_->name(); }
  void BeginModel(int64_t hidden_size) override { inner_->BeginModel(hidden_size); }
  Result<std::unique_ptr<Buffer>> Allocate(size_t bytes) override {
    return inner_->Allocate(bytes);
  }
  Result<std::unique_ptr<Weight>> LoadWeight(const WeightView& view) override {
    return inner_->LoadWeight(view);
  }
  uint64_t RepackedBytes(const Weight& weight) const override {
    return inner_->RepackedBytes(weight);
  }
  Status Repack(Weight* weight) override { return inner_->Repack(weight); }
  Status SetReadOnly(Buffer* buffer, bool read_only) override {
    return inner_->SetReadOnly(buffer, read_only);
  }
  Status Upload(BufferRef dst, std::span<const std::byte> src) override {
    return inner_->Upload(dst, src);
  }
  Status Download(BufferRef src, std::span<std::byte> dst) override {
    return inner_->Download(src, dst);
  }
  Status WithHostBytes(Buffer* buffer,
                       const std::function<Status(std::span<std::byte>)>& fn) override {
    return inner_->WithHostBytes(buffer, fn);
  }
  Status Copy(const CopyArgs& args) override { return inner_->Copy(args); }
  Status GatherRows(const GatherRowsArgs& args) override { return inner_->GatherRows(args); }
  Status Embed(const EmbedArgs& args) override { return inner_->Embed(args); }
  Status HcRead(const HcReadArgs& args) override { return inner_->HcRead(args); }
  Status HcWrite(const HcWriteArgs& args) override { return inner_->HcWrite(args); }
  Status MatMul(const MatMulArgs& args) override { return inner_->MatMul(args); }
  Status Gdn(const GdnArgs& args) override { return inner_->Gdn(args); }
  Status QsaAppend(const QsaAppendArgs& args) override { return inner_->QsaAppend(args); }
  Status QsaAttend(const QsaAttendArgs& args) override { return inner_->QsaAttend(args); }
  Status Moe(const MoeArgs& args) override { return inner_->Moe(args); }
  Status Ple(const PleArgs& args) override { return inner_->Ple(args); }
  Status DraftInput(const DraftInputArgs& args) override { return inner_->DraftInput(args); }
  Status Commit(const CommitArgs& args) override { return inner_->Commit(args); }
  Status Synchronize() override { return inner_->Synchronize(); }

 protected:
  Backend* inner() { return inner_.get(); }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_FORWARDING_BACKEND_H_
