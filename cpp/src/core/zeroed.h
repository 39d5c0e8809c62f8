#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

namespace heed {

/// A large array of zeros. One instruction of WebAssembly fills it; std::vector would write its elements in a loop.
template <class T>
class Zeroed {
  static_assert(std::is_trivial_v<T>);
  static constexpr std::align_val_t kAlignment{alignof(T)};

 public:
  Zeroed() = default;
  /// Throws std::bad_alloc.
  explicit Zeroed(size_t count) : data_(static_cast<T*>(::operator new(count * sizeof(T), kAlignment))) {
    std::memset(data_.get(), 0, count * sizeof(T));
  }

  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }

 private:
  struct Delete {
    void operator()(T* data) const { ::operator delete(data, kAlignment); }
  };

  std::unique_ptr<T[], Delete> data_;
};

}  // namespace heed
