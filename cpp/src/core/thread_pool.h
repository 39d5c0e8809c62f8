#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/context.h"
#include "heed/error.h"

namespace heed {

/// Threads that share the tasks of one caller. A region is one call of run(). Its tasks are taken one batch at a time,
/// by the caller and by the threads that are awake, so the caller waits for batches that were begun and never for a
/// thread: one that does not run, because the machine is busy or it has ended, takes nothing and delays nothing. A
/// batch may take any time: one head of a long text takes minutes on a slow device. A thread that fails in a batch
/// calls fail(). Nothing else ends a thread in a batch: the host that could terminate it is the caller, which waits.
///
/// Between the regions of a call threads spin for some tens of microseconds, then they sleep. The host creates the
/// threads; each of them calls work(). It replaces those that end, or all of them after a region that did not end.
class ThreadPool {  // NOLINT(clang-analyzer-optin.performance.Padding): counters have cache lines of their own
 public:
  using Call = void (*)(const void* task, Index i, Context& context);

  /// For `threads` threads besides the caller. Of these, at most `cores` - 1 are woken; all if `cores` is 0, for
  /// unknown. `may_wait`: whether the caller may sleep, which the main thread of a page may not. `after_region` is
  /// called by the caller at the end of each region.
  ThreadPool(Index threads, Index cores, bool may_wait, void (*after_region)() = nullptr);
  /// All threads must have returned from work().
  ~ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Calls task(i, context) for each i in [0, count), where a thread has a context of its own with the random state of
  /// `context`. Rethrows the Error of one task; throws kWorkerFailed if a thread ended in a task.
  void run(Index count, Context& context, Call call, const void* task);
  /// Threads that share the tasks, including the caller: at most one for each core.
  Index threads() const { return woken_ + 1; }

  /// Prepares for a new thread i, and returns `stack_bytes` bytes for its stack. The previous one, if any, must have
  /// ended or be about to end. Frees the memory of replaced threads that have left work() or called fail(); one that
  /// was terminated elsewhere keeps its memory, since nothing says when it has ended.
  std::byte* add(Index i, size_t stack_bytes = 0);
  /// The body of thread i. Returns after stop().
  void work(Index i);
  /// Called by a thread that left work() by an exception, in a task.
  void fail();
  /// Ends all threads that are not in a task.
  void stop();

 private:
  struct alignas(64) Thread {
    std::atomic<uint32_t> asleep{0};  // it waits for this to become 0
    std::atomic<uint32_t> stopped{0};
    std::atomic<uint32_t> ended{0};  // it will not use its memory any more
    std::unique_ptr<std::byte[]> stack;
    Context context;
  };
  /// Written by the caller while no task is open.
  struct Region {
    Call call;
    const void* task;
    RandomState random;
    Index count;
    uint32_t batches;
  };

  bool take(uint32_t& left);
  void runBatch(uint32_t left, Context& context);
  void finishBatch(uint32_t batches);
  void keepError(ErrorCode code, const char* message);
  void wake(uint32_t count);
  bool isOpen() const { return static_cast<uint32_t>(open_.load()) > 0; }
  void waitForThreads();
  static void stop(Thread* thread);

  static thread_local Thread* current;  // the thread whose work() runs

  const Index woken_;  // of threads_, the first ones
  const bool may_wait_;
  void (*const after_region_)();
  std::vector<std::unique_ptr<Thread>> all_;  // also those that were replaced and have not ended
  std::vector<Thread*> threads_;
  Region region_{};
  bool running_ = false;    // also after a region that was left by a trap, until add()
  ErrorCode error_code_{};  // of the first task that failed
  std::string error_message_;

  // The number of the region in the upper half, so that a batch of one region is never taken for one of the next, and
  // the number of its batches that are left in the lower.
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<uint32_t> done_{0};  // batches of this region that have ended
  std::atomic<uint32_t> caller_sleeps_{0};
  std::atomic<uint32_t> failed_{0};
};

}  // namespace heed
