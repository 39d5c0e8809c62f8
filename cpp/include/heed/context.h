#pragma once

#include "heed/arena.h"

namespace heed {

struct Context;

/// Runs the independent tasks of an operation: today one after the other on the calling thread.
class Executor {
 public:
  /// task(i, context) for each i in [0, count). Tasks may run in any order and write to disjoint results; scratch is
  /// taken from the context that a task is given.
  template <class Task>
  void run(Index count, Context& context, const Task& task) const {
    for (Index i = 0; i < count; ++i) task(i, context);
  }
};

/// Where a call's sequences and rows stand in the whole batch. Dropout's draws are keyed by absolute places, so that a
/// part of a batch draws what the whole batch would.
struct RandomState {
  Index first_sequence = 0;
  Index first_row = 0;
};

/// What operations compute with: scratch memory, threads, and the state of random draws. A context serves one call at a
/// time.
struct Context {
  Arena arena;
  Executor executor;
  RandomState random;
};

/// Puts the random state of a context back at its end.
class RandomScope {
 public:
  explicit RandomScope(Context& context) : context_(context), before_(context.random) {}
  ~RandomScope() { context_.random = before_; }
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;
  const RandomState& before() const { return before_; }

 private:
  Context& context_;
  const RandomState before_;
};

}  // namespace heed
