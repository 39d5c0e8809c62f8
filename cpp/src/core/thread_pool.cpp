#include "core/thread_pool.h"

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

namespace heed {
namespace {

/// Number of loads for which a thread spins: about 60 microseconds. One thread alone works for less than that between
/// two parallel parts of a call for 16 tokens. More did not help there, and costs other work.
constexpr int kSpins = 60'000;
/// Batches per thread. More batches balance the load better, but cause more contention at the counter.
constexpr Index kBatches = 8;

/// A thread that falls asleep frees its arena if it is larger than this.
constexpr size_t kKeptBytes = 16 << 20;

/// Sleeps while `word` is `value`; in WebAssembly, for at most a second.
void sleepWhile(std::atomic<uint32_t>& word, uint32_t value) {
#if defined(__wasm__)
  __builtin_wasm_memory_atomic_wait32(reinterpret_cast<int*>(&word), static_cast<int>(value), 1'000'000'000);
#else
  word.wait(value);
#endif
}

void wakeOne(std::atomic<uint32_t>& word) {
#if defined(__wasm__)
  __builtin_wasm_memory_atomic_notify(reinterpret_cast<int*>(&word), 1);
#else
  word.notify_one();
#endif
}

}  // namespace

thread_local ThreadPool::Thread* ThreadPool::current = nullptr;

bool Executor::hasPool() const { return pool_ != nullptr; }

void Executor::runOnThreads(Index count, Context& context, ThreadPool::Call call, const void* task) const {
  pool_->run(count, context, call, task);
}

Index Executor::poolThreads() const { return pool_->threads(); }

ThreadPool::ThreadPool(Index threads, Index cores, bool may_wait, void (*after_region)())
    : woken_(cores > 0 ? std::min(threads, cores - 1) : threads),
      may_wait_(may_wait),
      after_region_(after_region),
      threads_(static_cast<size_t>(threads)) {}

void ThreadPool::run(Index count, Context& context, Call call, const void* task) {
  if (running_) {  // called by a task
    for (Index i = 0; i < count; ++i) call(task, i, context);
    return;
  }
  const auto batches = static_cast<uint32_t>(std::min(count, kBatches * threads()));
  region_ = {call, task, context.random, count, batches};
  running_ = true;
  failed_ = 0;
  done_ = 0;
  open_ = (((open_ >> 32) + 1) << 32) + batches;
  wake(batches - 1);
  for (uint32_t left; take(left);) runBatch(left, context);
  waitForThreads();
  if (after_region_) after_region_();
  running_ = false;
  if (failed_ == 0) return;
  if (error_message_.empty()) throw std::bad_alloc();
  throw Error(error_code_, std::move(error_message_));
}

bool ThreadPool::take(uint32_t& left) {
  uint64_t open = open_;
  while ((left = static_cast<uint32_t>(open)) > 0)
    if (open_.compare_exchange_weak(open, open - 1)) return true;
  return false;
}

/// Reads the region only after taking a batch: a region cannot end before its batches have.
void ThreadPool::runBatch(uint32_t left, Context& context) {
  const Region& region = region_;
  const uint32_t batches = region.batches;
  if (failed_ == 0) {
    context.random = region.random;
    try {
      const auto parts = static_cast<Index>(batches), part = parts - static_cast<Index>(left);
      for (Index i = evenPart(region.count, parts, part); i < evenPart(region.count, parts, part + 1); ++i)
        region.call(region.task, i, context);
    } catch (const Error& error) {
      keepError(error.code(), error.what());
    } catch (const std::bad_alloc&) {
      keepError(ErrorCode::kOutOfMemory, "out of memory: an allocation failed");
    } catch (const std::length_error&) {  // thrown by std::vector for sizes beyond the address space
      keepError(ErrorCode::kOutOfMemory, "out of memory: an array exceeds the address space");
    }
  }
  finishBatch(batches);
}

void ThreadPool::finishBatch(uint32_t batches) {
  if (++done_ == batches && caller_sleeps_ != 0) wakeOne(done_);
}

void ThreadPool::keepError(ErrorCode code, const char* message) {
  if (failed_.exchange(1) != 0) return;
  error_code_ = code;
  try {
    error_message_ = message;
  } catch (const std::bad_alloc&) {
    error_message_.clear();  // run() then throws std::bad_alloc
  }
}

void ThreadPool::waitForThreads() {
  const uint32_t batches = region_.batches;
  for (int spins = 0; spins < kSpins; ++spins)
    if (done_ == batches) return;
  while (!may_wait_)
    if (done_ == batches) return;
  caller_sleeps_ = 1;
  for (uint32_t done; (done = done_) != batches;) sleepWhile(done_, done);
  caller_sleeps_ = 0;
}

void ThreadPool::wake(uint32_t count) {
  for (Index i = 0; i < std::min<Index>(woken_, count); ++i) {
    Thread* thread = threads_[static_cast<size_t>(i)];
    if (thread && thread->asleep == 1 && thread->asleep.exchange(0) == 1) wakeOne(thread->asleep);
  }
}

std::byte* ThreadPool::add(Index i, size_t stack_bytes) {
  auto made = std::make_unique<Thread>();
  made->stack = std::unique_ptr<std::byte[]>(new std::byte[stack_bytes]);
  Thread* const thread = all_.emplace_back(std::move(made)).get();
  stop(std::exchange(threads_[static_cast<size_t>(i)], thread));
  std::erase_if(all_, [&](const auto& each) {
    return each->ended == 1 && std::ranges::find(threads_, each.get()) == threads_.end();
  });
  running_ = false;
  open_ = open_ >> 32 << 32;
  return thread->stack.get();
}

void ThreadPool::work(Index i) {
  Thread& self = *threads_[static_cast<size_t>(i)];
  current = &self;
  const int spins = i < woken_ ? kSpins : 0;
  while (self.stopped == 0) {
    for (uint32_t left; take(left);) runBatch(left, self.context);
    int spun = 0;
    while (spun < spins && !isOpen()) ++spun;
    if (isOpen()) continue;
    self.context.arena.trim(kKeptBytes);
    // No wake-up is lost: the caller opens a region before it looks for sleeping threads, and a thread sets `asleep`
    // before it looks for an open region.
    self.asleep = 1;
    while (self.asleep == 1 && !isOpen() && self.stopped == 0) sleepWhile(self.asleep, 1);
    self.asleep = 0;
  }
  self.ended = 1;
}

void ThreadPool::fail() {
  keepError(ErrorCode::kWorkerFailed, "threads: a thread ended before its task was done");
  Thread& self = *current;
  finishBatch(region_.batches);
  self.ended = 1;
}

void ThreadPool::stop() {
  for (Thread* thread : threads_) stop(thread);
}

void ThreadPool::stop(Thread* thread) {
  if (!thread) return;
  thread->stopped = 1;
  thread->asleep = 0;
  wakeOne(thread->asleep);
}

}  // namespace heed
