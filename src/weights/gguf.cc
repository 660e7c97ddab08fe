#include "weights/gguf.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

#include "weights/gguf_reader.h"
#include "weights/gguf_split.h"

namespace holdfast {

std::string GgufTensor::ShapeText() const {
  std::string text = "{";
  for (int i = 0; i < n_dims; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(ne[static_cast<size_t>(i)]);
  }
  return text + "}";
}

GgufFile::~GgufFile() = default;

Result<std::unique_ptr<GgufFile>> GgufFile::Open(const std::string& path) {
  std::unique_ptr<GgufFile> file(new GgufFile);
  file->name_ = path;
  HF_ASSIGN_OR_RETURN(MappedFile first, MappedFile::Open(path));
  file->files_.push_back(std::move(first));
  HF_RETURN_IF_ERROR(file->AddPart(file->files_[0].bytes(), path, 0));
  HF_RETURN_IF_ERROR(file->AddSiblings(path));
  return file;
}

Result<std::unique_ptr<GgufFile>> GgufFile::Parse(std::span<const std::byte> bytes,
                                                  const std::string& name) {
  std::unique_ptr<GgufFile> file(new GgufFile);
  file->name_ = name;
  HF_RETURN_IF_ERROR(file->AddPart(bytes, name, 0));
  HF_ASSIGN_OR_RETURN(const GgufSplit split, ReadSplit(*file));
  if (split.count > 1) {
    return FailedPreconditionError(fmt::format(
        "{}: key \"split.count\": found {}, wanted 1 (parsed from memory)", name, split.count));
  }
  return file;
}

Status GgufFile::AddPart(std::span<const std::byte> bytes, const std::string& name, int part) {
  HF_ASSIGN_OR_RETURN(GgufContents contents, ReadGguf(bytes, name));
  file_bytes_ += bytes.size();
  for (GgufTensor& tensor : contents.tensors) {
    tensor.part = part;
    const auto inserted = tensor_index_.emplace(tensor.name, tensors_.size());
    if (!inserted.second) {
      return DataLossError(fmt::format("{}: tensor {} is already in part {} of the model", name,
                                       Quoted(tensor.name),
                                       tensors_[inserted.first->second].part + 1));
    }
    tensors_.push_back(std::move(tensor));
  }
  if (part > 0) {
    // Later parts carry only split keys, which must say the same as part 1 and name their place.
    HF_ASSIGN_OR_RETURN(const GgufSplit split, ReadSplit(contents.values, name));
    HF_ASSIGN_OR_RETURN(const GgufSplit first, ReadSplit(*this));
    return CheckSplitPart(split, first, part, name);
  }
  version_ = contents.version;
  alignment_ = contents.alignment;
  values_ = std::move(contents.values);
  for (size_t i = 0; i < values_.size(); ++i) value_index_.emplace(values_[i].key(), i);
  return OkStatus();
}

Status GgufFile::AddSiblings(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const GgufSplit split, ReadSplit(*this));
  if (split.count <= 1) return OkStatus();
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> paths, SplitPaths(path, split));
  n_parts_ = static_cast<int>(paths.size());
  files_.reserve(paths.size());
  for (size_t part = 1; part < paths.size(); ++part) {
    Result<MappedFile> sibling = MappedFile::Open(paths[part]);
    if (!sibling.ok()) {
      return Status(sibling.status().code(),
                    fmt::format("{}: part {} of {} cannot be opened: {}", path, part + 1,
                                split.count, sibling.status().message()));
    }
    files_.push_back(std::move(sibling).value());
    HF_RETURN_IF_ERROR(AddPart(files_.back().bytes(), paths[part], static_cast<int>(part)));
  }
  if (split.n_tensors >= 0 && static_cast<int64_t>(tensors_.size()) != split.n_tensors) {
    return DataLossError(
        fmt::format("{}: key \"split.tensors.count\": found {}, but the {} parts hold {}", path,
                    split.n_tensors, split.count, tensors_.size()));
  }
  return OkStatus();
}

const MappedFile* GgufFile::part_file(int part) const {
  const auto i = static_cast<size_t>(part);
  return i < files_.size() ? &files_[i] : nullptr;
}

Status GgufFile::CheckReads() const {
  for (const MappedFile& file : files_) HF_RETURN_IF_ERROR(file.CheckReads());
  return OkStatus();
}

const GgufTensor* GgufFile::FindTensor(std::string_view name) const {
  const auto it = tensor_index_.find(name);
  return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

const GgufValue* GgufFile::Find(std::string_view key) const {
  const auto it = value_index_.find(key);
  return it == value_index_.end() ? nullptr : &values_[it->second];
}

Result<const GgufValue*> GgufFile::Require(std::string_view key) const {
  const GgufValue* value = Find(key);
  if (value == nullptr) return NotFoundError(fmt::format("{}: no key {}", name_, Quoted(key)));
  return value;
}

namespace {

// A value's own error says key, found and wanted; the file's name goes in front.
template <typename T>
Result<T> InFile(const std::string& name, Result<T> result) {
  if (result.ok()) return result;
  return Status(result.status().code(), name + ": " + result.status().message());
}

}  // namespace

Result<int64_t> GgufFile::GetInt(std::string_view key, int64_t low, int64_t high) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  return InFile(name_, value->Int(low, high));
}

Result<double> GgufFile::GetFloat(std::string_view key, double low, double high) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  return InFile(name_, value->Float(low, high));
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  return InFile(name_, value->Bool());
}

Result<std::string_view> GgufFile::GetString(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  return InFile(name_, value->String());
}

Result<std::vector<int64_t>> GgufFile::GetInts(std::string_view key, int64_t low,
                                               int64_t high) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  return InFile(name_, value->Ints(low, high));
}

Result<std::vector<uint64_t>> GgufFile::GetUint64s(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  return InFile(name_, value->Uint64s());
}

Result<std::vector<std::string_view>> GgufFile::GetStrings(std::string_view key) const {
  HF_ASSIGN_OR_RETURN(const GgufValue* value, Require(key));
  return InFile(name_, value->Strings());
}

Result<int64_t> GgufFile::GetIntOr(std::string_view key, int64_t low, int64_t high,
                                   int64_t fallback) const {
  if (Find(key) == nullptr) return fallback;
  return GetInt(key, low, high);
}

Result<double> GgufFile::GetFloatOr(std::string_view key, double low, double high,
                                    double fallback) const {
  if (Find(key) == nullptr) return fallback;
  return GetFloat(key, low, high);
}

Result<bool> GgufFile::GetBoolOr(std::string_view key, bool fallback) const {
  if (Find(key) == nullptr) return fallback;
  return GetBool(key);
}

Result<std::string_view> GgufFile::GetStringOr(std::string_view key,
                                               std::string_view fallback) const {
  if (Find(key) == nullptr) return fallback;
  return GetString(key);
}

}  // namespace holdfast
