#pragma once

#include <thread>
#include <vector>

#include "core/thread_pool.h"

/// A context whose executor runs tasks on threads, the calling one included.
namespace heed::test {

class Threaded {
 public:
  explicit Threaded(Index threads, Index cores = 0) : pool_(threads - 1, cores, true) {
    context.executor = Executor(&pool_);
    for (Index i = 0; i + 1 < threads; ++i) {
      pool_.add(i);
      threads_.emplace_back([this, i] { pool_.work(i); });
    }
  }
  ~Threaded() {
    pool_.stop();
    for (std::thread& thread : threads_) thread.join();
  }
  Threaded(const Threaded&) = delete;
  Threaded& operator=(const Threaded&) = delete;

  Context context;

 private:
  ThreadPool pool_;
  std::vector<std::thread> threads_;
};

}  // namespace heed::test
