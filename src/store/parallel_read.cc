#include "store/parallel_read.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "store/part_file.h"

namespace holdfast {
namespace {

// Copying out of the page cache and hashing are bound by memory bandwidth; more do not help.
constexpr int kMaxReadThreads = 4;
// In the second-level cache when it is hashed right after it was read, and large enough for a
// system call to be cheap.
constexpr size_t kPieceBytes = 512 << 10;
// Up to here a payload is one thread's, which finds all it hashes in its own cache.
constexpr size_t kWholeBytes = 8 << 20;

// One large job cut into pieces: read in any order by any thread, hashed in their order by one at a
// time.
class PiecedJob {
 public:
  explicit PiecedJob(ReadJob* job)
      : job_(job),
        n_pieces_((job->dst.size() + kPieceBytes - 1) / kPieceBytes),
        ready_(std::make_unique<std::atomic<bool>[]>(n_pieces_)) {}

  size_t n_pieces() const { return n_pieces_; }

  void ReadPiece(size_t i) {
    const std::span<std::byte> dst = Piece(i);
    const Status status = job_->file->ReadExactly(job_->offset + i * kPieceBytes, dst, job_->what);
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      if (job_->status.ok()) job_->status = status;
      return;
    }
    ready_[i].store(true);
    HashWhatIsReady();
  }

  // After all pieces were read: hashes what is left and compares.
  void Finish() {
    HashWhatIsReady();
    if (!job_->status.ok()) return;
    const Hash128 found = stream_.Value();
    if (n_hashed_ == n_pieces_ && found == job_->hash) return;
    job_->status = ChecksumError(job_->what, job_->offset, job_->dst.size(), found, job_->hash);
  }

 private:
  std::span<std::byte> Piece(size_t i) const {
    const size_t begin = i * kPieceBytes;
    return job_->dst.subspan(begin, std::min(kPieceBytes, job_->dst.size() - begin));
  }

  // A thread that finds another one hashing leaves its piece to that one, or to Finish().
  void HashWhatIsReady() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock()) return;
    for (; n_hashed_ < n_pieces_ && ready_[n_hashed_].load(); ++n_hashed_) {
      stream_.Add(Piece(n_hashed_));
    }
  }

  ReadJob* job_;
  const size_t n_pieces_;
  std::unique_ptr<std::atomic<bool>[]> ready_;
  std::mutex mutex_;  // guards the rest
  Hash128Stream stream_;
  size_t n_hashed_ = 0;
};

}  // namespace

int DefaultReadThreads() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMaxReadThreads);
}

void ReadInParallel(std::vector<ReadJob>* jobs, int n_threads) {
  std::vector<std::unique_ptr<PiecedJob>> pieced;
  std::vector<std::pair<PiecedJob*, size_t>> pieces;
  std::vector<ReadJob*> whole;
  for (ReadJob& job : *jobs) {
    if (job.dst.size() <= kWholeBytes) {
      whole.push_back(&job);
      continue;
    }
    pieced.push_back(std::make_unique<PiecedJob>(&job));
    for (size_t i = 0; i < pieced.back()->n_pieces(); ++i)
      pieces.emplace_back(pieced.back().get(), i);
  }
  // The large ones first: their hashing is a chain that nothing shortens.
  const size_t n_tasks = pieces.size() + whole.size();
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < n_tasks;) {
      if (i < pieces.size()) {
        pieces[i].first->ReadPiece(pieces[i].second);
      } else {
        ReadJob* const job = whole[i - pieces.size()];
        job->status = ReadChecked(job->file, job->offset, job->dst, job->hash, job->what);
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const size_t n_workers = std::min<size_t>(std::max(n_threads, 1), n_tasks);
    for (size_t i = 1; i < n_workers; ++i) {
      try {
        helpers.emplace_back(work);
      } catch (const std::system_error&) {
        break;  // no more threads to be had: the ones there are do the work
      }
    }
    work();
  }
  for (const auto& job : pieced) job->Finish();
}

}  // namespace holdfast
