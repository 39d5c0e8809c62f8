/// Shared-memory threads, in the builds for them. JavaScript starts the threads (web/src/base/wasm/threads.ts): it instantiates
/// the module again with the same memory, and calls the functions that startThreads() names by their indices in the
/// function table, which are the same in all instances.
#include <emscripten/bind.h>

#include "convert.h"
#include "core/thread_pool.h"
#include "memory.h"

/// Sets an instance's stack pointer and thread-local storage, at the lower end of the stack (Emscripten's compiler-rt).
extern "C" void _emscripten_wasm_worker_initialize(void* stack, int bytes);

extern "C" void __wasm_init_tls(void* storage);

namespace heed::bindings {
namespace {

/// The linker sets the addresses of thread-local variables of other object files in __wasm_init_tls(), which nothing
/// calls on the main thread. The unwinder has such a variable, and no exception would be caught.
__attribute__((constructor(101))) void initializeMainThread() { __wasm_init_tls(__builtin_wasm_tls_base()); }

constexpr size_t kStackBytes = 256 * 1024;  // as the main thread's

ThreadPool* pool = nullptr;  // lives as long as the module

void threadMain(int i) {
  enterThread();
  pool->work(i);
}
void threadFailed() { pool->fail(); }

template <class Function>
double address(Function* function) {
  return static_cast<double>(reinterpret_cast<uintptr_t>(function));
}

/// Lets calls use `count` threads besides the caller, or none again. Returns what every thread needs: the functions
/// that initialize it, run it and report its failure, and the size of its stack.
val startThreads(int count, int cores, bool may_wait) {
  return guarded([&] {
    pool = count == 0 ? nullptr : new ThreadPool(count, cores, may_wait, followGrowth);
    context().executor = Executor(pool);
    val result = val::array();
    for (const double number : {address(&_emscripten_wasm_worker_initialize), address(&threadMain),
                                address(&threadFailed), static_cast<double>(kStackBytes)})
      result.call<void>("push", number);
    return result;
  });
}

/// Prepares for thread i, in place of one that has ended. Returns the address of its stack.
double addThread(int i) {
  return guarded([&] { return address(pool->add(i, kStackBytes)); });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_threads) {
  emscripten::function("startThreads", &startThreads);
  emscripten::function("addThread", &addThread);
}

}  // namespace heed::bindings
