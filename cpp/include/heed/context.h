#pragma once

#include <algorithm>

#include "heed/arena.h"

namespace heed {

struct Context;
class ThreadPool;

/// Runs the independent tasks of an operation: on the threads of a pool, or one after the other on the calling thread.
class Executor {
 public:
  Executor() = default;
  /// `pool` must live as long as this object.
  explicit Executor(ThreadPool* pool) : pool_(pool) {}

  /// Calls task(i, context) for each i in [0, count). Tasks may run in any order and must write to disjoint memory. A
  /// task takes scratch memory only from the context that it receives. If tasks throw, the Error of one is rethrown.
  template <class Task>
  void run(Index count, Context& context, const Task& task) const {
    if (count > 1 && hasPool()) {
      const auto call = [](const void* called, Index i, Context& own) { (*static_cast<const Task*>(called))(i, own); };
      return runOnThreads(count, context, call, &task);
    }
    for (Index i = 0; i < count; ++i) task(i, context);
  }

  /// The number of threads that tasks can use. Results must not depend on it.
  Index threads() const { return hasPool() ? poolThreads() : 1; }

 private:
  // Builds with threads link core/thread_pool.cpp; the others link core/one_thread.cpp, where hasPool() is false, and
  // link-time optimization drops the code that depends on it.
  bool hasPool() const;
  void runOnThreads(Index count, Context& context, void (*call)(const void* task, Index i, Context& context),
                    const void* task) const;
  Index poolThreads() const;

  ThreadPool* pool_ = nullptr;
};

/// The position of a call's first sequence and row in the whole batch. Dropout draws depend on absolute positions, so
/// that computing a part of a batch gives the same draws as computing the whole batch.
struct RandomState {
  Index first_sequence = 0;
  Index first_row = 0;
};

/// The resources of a call: scratch memory, an executor, and the state of random draws. A context must not be used by
/// two calls at the same time.
struct Context {
  Arena arena;
  Executor executor;
  RandomState random;
};

/// Divides `rows` rows of `width` values into parts and calls f(begin, end) for each. There is one part per thread, or
/// fewer if waking a thread would take longer than its part.
template <class F>
void forRowParts(Index rows, Index width, Context& context, const F& f) {
  constexpr Index kLeastValues = 1 << 13;
  const Index parts = std::clamp<Index>(rows * width / kLeastValues, 1, context.executor.threads());
  context.executor.run(parts, context,
                       [&](Index i, Context&) { f(evenPart(rows, parts, i), evenPart(rows, parts, i + 1)); });
}

/// Restores the random state of a context at the end of a scope.
class RandomScope {
 public:
  explicit RandomScope(Context& context) : context_(context), before_(context.random) {}
  ~RandomScope() { context_.random = before_; }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  Context& context_;
  const RandomState before_;
};

}  // namespace heed
