#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heed/context.h"
#include "heed/error.h"

namespace heed {

/// Threads that share the tasks of one caller. A region is one call of run(). The caller and the awake threads take its
/// tasks in batches. run() waits for batches, not for threads: a thread that is not scheduled or has exited takes no
/// batch, so it delays nobody. There is no time limit on a batch, since one head of a long text takes minutes on a slow
/// device. A thread that fails in a batch calls fail(). Only the caller could terminate a thread, and it is blocked in
/// run().
///
/// Between regions, threads spin for some tens of microseconds, then sleep. The host creates the threads, and each
/// thread calls work(). The host replaces threads that have ended, and all threads after a region that did not end.
class ThreadPool {  // NOLINT(clang-analyzer-optin.performance.Padding): each counter has its own cache line
 public:
  using Call = void (*)(const void* task, Index i, Context& context);

  /// A pool of `threads` threads in addition to the caller. At most `cores` - 1 of them are woken for a region, or all
  /// if `cores` is 0 (unknown). `may_wait`: whether the caller may sleep; the main thread of a page may not. The caller
  /// calls `after_region` at the end of each region.
  ThreadPool(Index threads, Index cores, bool may_wait, void (*after_region)() = nullptr);
  /// All threads must have returned from work().
  ~ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// Calls task(i, context) for each i in [0, count). Each thread passes its own context, with the random state of
  /// `context`. If tasks throw, rethrows the Error of one of them. Throws kWorkerFailed if a thread ended in a task.
  void run(Index count, Context& context, Call call, const void* task);
  /// Number of threads that share the tasks, including the caller: at most one per core.
  Index threads() const { return woken_ + 1; }

  /// Prepares for a new thread i and returns `stack_bytes` bytes for its stack. The previous thread i, if any, must
  /// have ended or be about to end. Frees the memory of replaced threads that have left work() or called fail(). The
  /// memory of a thread that was terminated is not freed, because the pool cannot know when it ended.
  std::byte* add(Index i, size_t stack_bytes = 0);
  /// The body of thread i. Returns after stop().
  void work(Index i);
  /// Called by a thread that left work() because of an exception in a task.
  void fail();
  /// Ends all threads that are not in a task.
  void stop();

 private:
  struct alignas(64) Thread {
    std::atomic<uint32_t> asleep{0};  // a sleeping thread waits for this to become 0
    std::atomic<uint32_t> stopped{0};
    std::atomic<uint32_t> ended{0};  // 1: the thread no longer uses its memory
    std::unique_ptr<std::byte[]> stack;
    Context context;
  };
  /// Written by the caller while no batch is open.
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

  static thread_local Thread* current;  // the thread that runs this work()

  const Index woken_;  // run() wakes only the first `woken_` of threads_
  const bool may_wait_;
  void (*const after_region_)();
  std::vector<std::unique_ptr<Thread>> all_;  // includes replaced threads that have not ended
  std::vector<Thread*> threads_;
  Region region_{};
  bool running_ = false;    // stays true after a trap inside a region, until add()
  ErrorCode error_code_{};  // error of the first task that failed
  std::string error_message_;

  // Upper half: number of the region, so that a batch of one region is never mistaken for one of the next. Lower half:
  // number of batches that have not been taken.
  alignas(64) std::atomic<uint64_t> open_{0};
  alignas(64) std::atomic<uint32_t> done_{0};  // number of batches of this region that have ended
  std::atomic<uint32_t> caller_sleeps_{0};
  std::atomic<uint32_t> failed_{0};
};

}  // namespace heed
