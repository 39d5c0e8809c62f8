#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "heed/tensor.h"

namespace heed {

/// Bump allocator for activations and scratch memory. Memory stays valid until the end of the scope in which it was
/// taken. After the first calls, the arena holds as much memory as a call needs, and no further call allocates. Not
/// thread-safe.
class Arena {
 public:
  /// Uninitialized memory for `count` values, aligned to 64 bytes. Throws kOutOfMemory.
  template <class T = float>
  T* take(Index count) {
    return static_cast<T*>(takeBytes(checkedBytes(count, sizeof(T))));
  }
  /// An uninitialized (rows, columns) matrix.
  MatrixView matrix(Index rows, Index columns);

  /// Its destructor releases everything that was taken since its construction.
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

  /// Bytes allocated from the system, whether in use or not.
  size_t capacity() const;
  /// Frees all memory if the capacity exceeds `bytes`. Call it only when nothing is taken.
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
  size_t block_ = 0;  // the current block
  size_t used_ = 0;   // bytes in use in the current block
  size_t peak_ = 0;   // maximum number of bytes in use: the size of the one block that replaces several
};

}  // namespace heed
