#pragma once

namespace heed::bindings {

/// Tells the glue to renew its views of the memory if a thread has grown it. For the main thread.
void followGrowth();

/// Says that the calling thread is not the main one.
void enterThread();

}  // namespace heed::bindings
