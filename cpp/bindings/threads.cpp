/// Shared-memory threads; only in builds with threads. JavaScript starts the threads (web/src/base/wasm/threads.ts): it
/// instantiates the module again with the same memory, and calls functions by the indices that startThreads() returns.
/// They are indices into the function table, which is the same in all instances.
#include <emscripten/bind.h>

#include "convert.h"
#include "core/thread_pool.h"
#include "memory.h"

/// Sets an instance's stack pointer and thread-local storage, at the lower end of the stack (Emscripten's compiler-rt).
extern "C" void _emscripten_wasm_worker_initialize(void* stack, int bytes);

extern "C" void __wasm_init_tls(void* storage);

namespace heed::bindings {
namespace {

/// __wasm_init_tls() sets the addresses of thread-local variables of other object files, but nothing calls it on the
/// main thread. The unwinder has such a variable; without this call, no exception would be caught.
__attribute__((constructor(101))) void initializeMainThread() { __wasm_init_tls(__builtin_wasm_tls_base()); }

constexpr size_t kStackBytes = 256 * 1024;  // like the main thread's stack

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

/// Makes calls use `count` threads in addition to the caller; 0: none. Returns an array for starting threads: the
/// indices of the functions that initialize a thread, run it and report its failure, and the size of its stack.
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

/// Prepares for a new thread i, which replaces one that has ended, if any. Returns the address of its stack.
double addThread(int i) {
  return guarded([&] { return address(pool->add(i, kStackBytes)); });
}

}  // namespace

EMSCRIPTEN_BINDINGS(heed_threads) {
  emscripten::function("startThreads", &startThreads);
  emscripten::function("addThread", &addThread);
}

}  // namespace heed::bindings
