/// Growth of the module's memory. Implemented here instead of in Emscripten's JavaScript, because heed's threads cannot
/// call JavaScript.
#include "memory.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

/// Makes Emscripten's JavaScript renew its views of the memory.
extern "C" void emscripten_notify_memory_growth(size_t memory);

namespace heed::bindings {
namespace {

constexpr size_t kPage = 65536, kMostReserve = (2 << 20) / kPage;

size_t known_pages = 0;  // size of JavaScript's views of the memory
thread_local bool is_main = true;

bool grow(size_t pages) { return __builtin_wasm_memory_grow(0, pages) != SIZE_MAX; }

}  // namespace

void followGrowth() {
  const size_t pages = __builtin_wasm_memory_size(0);
  if (pages == known_pages) return;
  known_pages = pages;
  emscripten_notify_memory_growth(0);
}

void enterThread() { is_main = false; }

}  // namespace heed::bindings

/// Called by sbrk(), which needs `bytes` bytes in total. Like Emscripten, grows by at least a fifth, but this reserve
/// is limited to 2 MB, because memory never shrinks.
extern "C" int emscripten_resize_heap(size_t bytes) {
  using namespace heed::bindings;
  const size_t pages = __builtin_wasm_memory_size(0), needed = (bytes - 1) / kPage + 1 - pages;
  if (!grow(std::max(needed, std::min(pages / 5, kMostReserve))) && !grow(needed)) return 0;
  if (is_main) followGrowth();
  return 1;
}
