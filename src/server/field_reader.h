#ifndef HOLDFAST_SERVER_FIELD_READER_H_
#define HOLDFAST_SERVER_FIELD_READER_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/api_error.h"
#include "server/json.h"

namespace holdfast {

// Reads typed fields of a JSON object. Absent and null fields leave the target as it is; the first
// field of a wrong type or outside its range is kept as the error, naming field, value and what is
// wanted, and later reads do nothing. Fields nobody asks for are ignored.
//
//   FieldReader in(body);
//   in.Read("temperature", &params.temperature, 0.0, 1000.0);
//   if (!in.ok()) return in.error();
class FieldReader {
 public:
  // `path` goes before field names in messages ("stream_options."). `object` must outlive this; not
  // an object: an error at once.
  explicit FieldReader(const Json& object, std::string path = "");

  void Read(std::string_view key, bool* out);
  void Read(std::string_view key, int64_t* out, int64_t low, int64_t high);
  void Read(std::string_view key, int* out, int low, int high);
  void Read(std::string_view key, float* out, double low, double high);
  void Read(std::string_view key, std::string* out);
  void Read(std::string_view key, std::optional<bool>* out);
  void Read(std::string_view key, std::optional<std::string>* out);
  // A string, or an array of them.
  void Read(std::string_view key, std::vector<std::string>* out);

  // The value of a field that is there and not null, for the caller to take apart; else null.
  const Json* Find(std::string_view key) const;
  // The object in a field, or null when absent or in error.
  const Json* Object(std::string_view key);

  // Records an error at `key` unless there is one: "<path><key> is <value>, must be <wanted>".
  void Refuse(std::string_view key, const Json& value, std::string_view wanted);
  void Fail(std::string_view key, Status status);

  // Refuses fields that ask for what this server does not do: those that are there and are not
  // null, false, 0, "none" or an empty list.
  struct Unsupported {
    std::string_view key;
    std::string_view instead;  // what to do, or why there is no such thing
  };
  void RefuseUnsupported(std::span<const Unsupported> fields);

  bool ok() const { return error_.status.ok(); }
  const ApiError& error() const { return error_; }

 private:
  const Json& object_;
  std::string path_;
  ApiError error_;
};

}  // namespace holdfast

#endif  // HOLDFAST_SERVER_FIELD_READER_H_
