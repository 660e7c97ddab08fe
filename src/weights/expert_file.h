#ifndef HOLDFAST_WEIGHTS_EXPERT_FILE_H_
#define HOLDFAST_WEIGHTS_EXPERT_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash128.h"
#include "base/status.h"
#include "weights/expert_tier.h"
#include "weights/gguf.h"
#include "weights/gguf_writer.h"

namespace holdfast {

// Where gate, up and down of one expert lie in its blob: one after the other. Blobs are padded to
// 4 KiB and begin at multiples of it, so that an expert is one read without an edge.
struct ExpertBlob {
  uint64_t gate_bytes = 0, up_bytes = 0, down_bytes = 0;
  uint64_t used_bytes() const { return gate_bytes + up_bytes + down_bytes; }
  uint64_t padded_bytes() const;
};
ExpertBlob BlobOf(const ExpertLayer& layer);
// `to` is padded_bytes(): expert `expert` as its model file has it, and zeros.
void CopyBlob(const ExpertLayer& layer, int64_t expert, std::span<std::byte> to);

// What an experts file says of the model it was made from, and the checksums it holds.
struct ExpertFileContent {
  std::vector<ExpertLayer> layers;                   // those that are in the model's file
  std::vector<const GgufTensor*> tensors;            // all others of the model
  std::vector<std::vector<Hash128>> blob_checksums;  // by layer and expert, of the padded blob
  std::vector<Hash128> tensor_checksums;
};
// The layers and tensors; all checksums are zero.
ExpertFileContent ContentOf(const GgufFile& model, std::span<const ExpertLayer> layers);
// All of the file but the blobs, which lie layer by layer behind it. Its size does not depend on
// the checksums. Errors: the model's files cannot be looked at.
Result<GgufWriter> DescribeExpertFile(const GgufFile& model, const ExpertFileContent& content);

// A model's routed experts once more, laid out for reading, with checksums of them and of the
// model's other tensors (docs/big_models.md). `holdfast prepare` makes it.
//
// Threads: immutable.
class ExpertFile {
 public:
  // "model.gguf.experts".
  static std::string PathBeside(const std::string& model_path);
  // kFailedPrecondition when it was made from another file, or the model has been written since;
  // kDataLoss when what describes it is damaged. `model` must outlive it. The blobs themselves are
  // not read.
  static Result<std::unique_ptr<ExpertFile>> Open(const std::string& path, const GgufFile& model,
                                                  std::span<const ExpertLayer> layers);

  const GgufFile& file() const { return *file_; }
  // Lets those of `layers` that are in the model's file be read from this one.
  void Attach(std::span<ExpertLayer> layers) const;
  // Reads everything that is used with it and compares checksums: the other tensors of the model,
  // and the blobs, or with `mapped` the experts in the model's file. kDataLoss naming file and
  // expert or tensor.
  Status Verify(bool mapped, const std::function<void(double fraction)>& progress) const;

 private:
  ExpertFile() = default;
  std::unique_ptr<GgufFile> file_;
  std::string model_name_;
  ExpertFileContent content_;
  std::vector<const GgufTensor*> blobs_;  // by layer of content_
};

// What can be said of a model without checksums: whether all of it can be read. kDataLoss naming
// the file.
Status ReadAllTensors(const GgufFile& model, const std::function<void(double fraction)>& progress);

}  // namespace holdfast

#endif  // HOLDFAST_WEIGHTS_EXPERT_FILE_H_
