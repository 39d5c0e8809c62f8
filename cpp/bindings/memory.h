#pragma once

namespace heed::bindings {

/// Makes Emscripten's JavaScript renew its views of the memory if a thread has grown it. Call it on the main thread.
void followGrowth();

/// Marks the calling thread as not the main one.
void enterThread();

}  // namespace heed::bindings
