#ifndef HOLDFAST_OPS_PROFILE_PROFILING_BACKEND_H_
#define HOLDFAST_OPS_PROFILE_PROFILING_BACKEND_H_

#include <memory>
#include <string>
#include <unordered_map>

#include "ops/backend.h"
#include "ops/profile/profile.h"

namespace holdfast {

// Passes every call on to another backend and notes how long it took. Waits for each op, so that a
// time is the op's own. Where there is none of these in between, profiling costs nothing.
class ProfilingBackend : public Backend {
 public:
  // `inner` outlives it.
  ProfilingBackend(Backend* inner, std::shared_ptr<Profile> profile)
      : inner_(inner), profile_(std::move(profile)) {}

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
  Status Upload(BufferRef dst, std::span<const std::byte> src) override;
  Status Download(BufferRef src, std::span<std::byte> dst) override;
  Status WithHostBytes(Buffer* buffer,
                       const std::function<Status(std::span<std::byte>)>& fn) override {
    return inner_->WithHostBytes(buffer, fn);
  }
  Status Copy(const CopyArgs& args) override;
  Status GatherRows(const GatherRowsArgs& args) override;
  Status Embed(const EmbedArgs& args) override;
  Status HcRead(const HcReadArgs& args) override;
  Status HcWrite(const HcWriteArgs& args) override;
  Status MatMul(const MatMulArgs& args) override;
  Status Gdn(const GdnArgs& args) override;
  Status QsaAppend(const QsaAppendArgs& args) override;
  Status QsaAttend(const QsaAttendArgs& args) override;
  Status Moe(const MoeArgs& args) override;
  Status Ple(const PleArgs& args) override;
  Status DraftInput(const DraftInputArgs& args) override;
  Status Commit(const CommitArgs& args) override;
  Status Synchronize() override;

 private:
  // Of a weight's name: "blk.3.attn_qkv.weight" is attn_qkv of layer 3.
  struct Label {
    std::string text;
    int layer = -1;
  };
  static Label MakeLabel(std::string_view tensor_name);
  const Label& LabelOf(const Weight* weight);
  // Runs `call` to its end, and notes it as `op`. A layer of -1 is the last one that was named.
  template <typename Call>
  Status Time(OpPoint op, const Call& call);

  Backend* const inner_;
  const std::shared_ptr<Profile> profile_;
  std::unordered_map<const Weight*, Label> labels_;
  std::unordered_map<const Weight*, std::string> product_names_;
  int layer_ = -1;
};

}  // namespace holdfast

#endif  // HOLDFAST_OPS_PROFILE_PROFILING_BACKEND_H_
