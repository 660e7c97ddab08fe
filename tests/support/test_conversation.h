#ifndef HOLDFAST_TESTS_SUPPORT_TEST_CONVERSATION_H_
#define HOLDFAST_TESTS_SUPPORT_TEST_CONVERSATION_H_

// A conversation whose tokens are known, read in whatever pieces a test wants.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "model/model.h"

namespace holdfast {

class TestConversation {
 public:
  TestConversation(Model* model, std::vector<int32_t> tokens)
      : model_(model), tokens_(std::move(tokens)) {
    running_ = Allocate(model->layout().running_bytes());
    const int64_t n_pages = model->layout().PagesFor(static_cast<int64_t>(tokens_.size()));
    for (int64_t i = 0; i < n_pages; ++i) {
      pages_.push_back(Allocate(model->layout().page_bytes()));
      page_pointers_.push_back(pages_.back().get());
    }
  }

  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t n_read() const { return n_read_; }
  int64_t n_left() const { return static_cast<int64_t>(tokens_.size()) - n_read_; }

  // The next `n` tokens as rows of a step, which the caller must run.
  SequenceRows Next(int64_t n) {
    const SequenceRows rows{.tokens = std::span(tokens_).first(n_read_ + n),
                            .first_position = n_read_,
                            .running = running_.get(),
                            .pages = page_pointers_};
    n_read_ += n;
    return rows;
  }

  std::vector<std::byte> RunningBytes() const { return BytesOf(running_.get()); }
  std::vector<std::byte> PageBytes(int64_t page) const { return BytesOf(pages_[page].get()); }

  // Every part of the state by name: "l0 gdn_state", "page 1 l3 keys".
  std::vector<std::pair<std::string, std::vector<std::byte>>> Parts() const {
    std::vector<std::pair<std::string, std::vector<std::byte>>> parts;
    const auto add = [&](const std::string& prefix, const std::vector<Part>& list,
                         const std::vector<std::byte>& bytes) {
      for (const Part& part : list) {
        const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(part.offset);
        parts.emplace_back(
            prefix + "l" + std::to_string(part.layer) + " " + std::string(PartKindName(part.kind)),
            std::vector<std::byte>(begin, begin + static_cast<std::ptrdiff_t>(part.bytes)));
      }
    };
    add("", model_->layout().running_parts(), RunningBytes());
    for (size_t i = 0; i < pages_.size(); ++i) {
      add("page " + std::to_string(i) + " ", model_->layout().cell_parts(), PageBytes(i));
    }
    return parts;
  }

  // A part's floats.
  static std::vector<float> Floats(const std::vector<std::byte>& bytes, const Part* part) {
    std::vector<float> values(part->bytes / sizeof(float));
    std::memcpy(values.data(), bytes.data() + part->offset, part->bytes);
    return values;
  }

 private:
  std::unique_ptr<Buffer> Allocate(size_t bytes) const {
    auto buffer = model_->backend()->Allocate(bytes);
    EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
    return std::move(*buffer);
  }
  std::vector<std::byte> BytesOf(Buffer* buffer) const {
    std::vector<std::byte> bytes(buffer->bytes());
    EXPECT_TRUE(model_->backend()->Download({buffer, 0}, bytes).ok());
    return bytes;
  }

  Model* model_;
  std::vector<int32_t> tokens_;
  int64_t n_read_ = 0;
  std::unique_ptr<Buffer> running_;
  std::vector<std::unique_ptr<Buffer>> pages_;
  std::vector<Buffer*> page_pointers_;
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_SUPPORT_TEST_CONVERSATION_H_
