#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "support.h"

/// Allocations that fail on request. The test program replaces operator new, which counts the calling thread's
/// allocations.
namespace heed::test {

/// While one exists, allocation number `n` of this thread, counted from 0, throws std::bad_alloc.
class FailingAllocation {
 public:
  explicit FailingAllocation(int64_t n);
  ~FailingAllocation();
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;
  /// Whether the allocation has been reached.
  bool failed() const;
};

/// While one exists, allocations do not fail.
class NoFailures {
 public:
  NoFailures();
  ~NoFailures();
  NoFailures(const NoFailures&) = delete;
  NoFailures& operator=(const NoFailures&) = delete;

 private:
  int64_t before_;
};

/// observe(), whose allocations do not fail.
template <class F>
auto observed(const F& observe) {
  const NoFailures scope;
  return observe();
}

/// Bytes that are allocated by all threads and not freed.
int64_t allocatedBytes();

/// A call on an object. It returns the observable values of the results and of the object.
using ObservedCall = std::function<std::vector<float>()>;

/// `make` creates an object and returns a call on it. For each allocation of a first call, lets it fail on a new
/// object. Expects the call to throw std::bad_alloc or kOutOfMemory and to change nothing: two further calls must
/// return, bit for bit, the same as two calls on an object without a failure.
void expectUnchangedByFailures(const std::string& name, const std::function<ObservedCall()>& make);

/// The values of matrices, one after the other.
std::vector<float> valuesOf(std::initializer_list<RowMajorMatrix> matrices);
/// The values of all parameters.
std::vector<float> valuesOf(Module& module);

}  // namespace heed::test
