#ifndef HOLDFAST_BASE_MAPPING_GUARD_H_
#define HOLDFAST_BASE_MAPPING_GUARD_H_

#include <atomic>
#include <cstddef>

namespace holdfast {

// Reads of a mapped file fail by a signal (SIGBUS) when the disk does not answer or the file has
// become shorter. While a guard stands over a mapping such a read finds zeros instead, and the
// guard knows: whoever computed with the mapping asks failed() before he lets anything out.
//
// Threads: failed() from any.
class MappingGuard {
 public:
  MappingGuard() = default;
  // Of a whole mapping made by mmap(), to be destroyed before it is unmapped. Beyond
  // kMaxGuarded mappings at a time there is none, and such a read ends the process as before.
  MappingGuard(const void* begin, size_t n_bytes);
  MappingGuard(MappingGuard&& other) noexcept;
  MappingGuard& operator=(MappingGuard&& other) noexcept;
  ~MappingGuard();

  // A read has failed since. What was read after that, or at that time, may be wrong, and stays so.
  bool failed() const;

  static constexpr int kMaxGuarded = 1024;

 private:
  int place_ = -1;  // in the list of guarded mappings; -1: none
};

}  // namespace holdfast

#endif  // HOLDFAST_BASE_MAPPING_GUARD_H_
