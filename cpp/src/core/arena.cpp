#include "heed/arena.h"

#include <algorithm>
#include <limits>
#include <new>
#include <string>

#include "heed/error.h"

namespace heed {

namespace {

constexpr size_t kAlignment = 64;  // a cache line
constexpr size_t kMinBlock = 256 * 1024;

[[noreturn]] void throwOutOfBytes(size_t bytes) {
  throw Error(ErrorCode::kOutOfMemory, "out of memory: could not allocate " + std::to_string(bytes) + " bytes");
}

}  // namespace

MatrixView Arena::matrix(Index rows, Index columns) { return view(take(Shape{rows, columns}.size()), rows, columns); }

size_t Arena::checkedBytes(Index count, size_t size) {
  constexpr size_t kMaxBytes = static_cast<size_t>(std::numeric_limits<Index>::max()) - 2 * kAlignment;
  if (count < 0 || static_cast<size_t>(count) > kMaxBytes / size) throwOutOfBytes(std::numeric_limits<size_t>::max());
  return static_cast<size_t>(count) * size;
}

void* Arena::takeBytes(size_t bytes) {
  bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  while (block_ < blocks_.size() && blocks_[block_].size - used_ < bytes) {
    ++block_;
    used_ = 0;
  }
  if (block_ == blocks_.size()) {
    const size_t size = std::max({bytes, kMinBlock, blocks_.empty() ? peak_ : capacity() / 4});
    std::unique_ptr<std::byte[]> data(new (std::nothrow) std::byte[size + kAlignment]);
    if (!data) throwOutOfBytes(bytes);
    std::byte* begin = data.get() + (kAlignment - reinterpret_cast<uintptr_t>(data.get()) % kAlignment) % kAlignment;
    blocks_.push_back({std::move(data), begin, size});
    used_ = 0;
  }
  void* memory = blocks_[block_].begin + used_;
  used_ += bytes;
  size_t in_use = used_;
  for (size_t i = 0; i < block_; ++i) in_use += blocks_[i].size;
  peak_ = std::max(peak_, in_use);
  return memory;
}

void Arena::release(size_t block, size_t used) {
  block_ = block;
  used_ = used;
  // If a call needed several blocks, the next call allocates a single block for the maximum number of bytes in use.
  // After that, no memory is wasted between blocks, and no further call allocates.
  if (block == 0 && used == 0 && blocks_.size() > 1) blocks_.clear();
}

size_t Arena::capacity() const {
  size_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.size;
  return bytes;
}

void Arena::trim(size_t bytes) {
  if (capacity() <= bytes && peak_ <= bytes) return;
  blocks_.clear();
  block_ = used_ = peak_ = 0;
}

}  // namespace heed
