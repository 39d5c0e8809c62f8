/// The executor of builds without threads, which link this file instead of thread_pool.cpp.
#include "heed/context.h"

namespace heed {

bool Executor::hasPool() const { return false; }

void Executor::runOnThreads(Index, Context&, void (*)(const void*, Index, Context&), const void*) const {}

Index Executor::poolThreads() const { return 1; }

}  // namespace heed
