#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// Bump allocator for activations and scratch. Memory handed out stays in place until the scope that it was taken in
/// closes; after the first calls have shown how much is needed, a call allocates nothing. One arena serves one thread.
class Arena {
 public:
  /// Uninitialised room for `count` values, aligned to 64 bytes. Throws Error(kOutOfMemory).
  template <class T = float>
  T* take(Index count) {
    return static_cast<T*>(takeBytes(checkedBytes(count, sizeof(T))));
  }
  /// An uninitialised (rows, columns) matrix.
  MatrixView matrix(Index rows, Index columns);

  /// Gives back, when destroyed, all that was taken since it was made.
  class Scope {
   public:
    explicit Scope(Arena& arena) : arena_(arena), block_(arena.block_), used_(arena.used_) {}
    ~Scope() { arena_.release(block_, used_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Arena& arena_;
    size_t block_;
    size_t used_;
  };

  /// Bytes held from the system, in use or not.
  size_t capacity() const;
  /// Frees everything where more than `bytes` are held; only while nothing is taken.
  void trim(size_t bytes);

 private:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::byte* begin;  // the first aligned byte of data
    size_t size;       // bytes from there
  };
  static size_t checkedBytes(Index count, size_t size);
  void* takeBytes(size_t bytes);
  void release(size_t block, size_t used);

  std::vector<Block> blocks_;
  size_t block_ = 0;  // the block that is being filled
  size_t used_ = 0;   // bytes of it in use
  size_t peak_ = 0;   // the most bytes that were ever in use: the size of the one block that replaces several
};

}  // namespace heed
