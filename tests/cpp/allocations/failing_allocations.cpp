#include "allocations/failing_allocations.h"

#include <malloc.h>

#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

thread_local int64_t until_failure =
    kNever;  // number of allocations before the one that fails; negative: it has failed
std::atomic<int64_t> allocated = 0;

void* counted(void* memory) {
  if (!memory) throw std::bad_alloc();
  allocated += static_cast<int64_t>(malloc_usable_size(memory));
  return memory;
}

void countDown() {
  if (until_failure == kNever) return;
  if (until_failure-- == 0) throw std::bad_alloc();
}

void release(void* memory) noexcept {
  if (memory) allocated -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace

// The other operators, such as new[] and those that return null, call these.
void* operator new(size_t size) {
  countDown();
  return counted(std::malloc(size > 0 ? size : 1));
}
void* operator new(size_t size, std::align_val_t alignment) {
  countDown();
  const auto step = static_cast<size_t>(alignment);
  return counted(std::aligned_alloc(step, (size + step - 1) / step * step));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { release(memory); }

namespace heed::test {

FailingAllocation::FailingAllocation(int64_t n) { until_failure = n; }
FailingAllocation::~FailingAllocation() { until_failure = kNever; }
bool FailingAllocation::failed() const { return until_failure < 0; }

NoFailures::NoFailures() : before_(std::exchange(until_failure, kNever)) {}
NoFailures::~NoFailures() { until_failure = before_; }

int64_t allocatedBytes() { return allocated; }

namespace {

std::vector<uint32_t> bitsOf(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

/// Returns whether the call reached allocation n, which then failed.
bool failsAt(const ObservedCall& call, int64_t n) {
  const FailingAllocation failing(n);
  try {
    (void)call();
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kOutOfMemory) throw;
    return true;
  }
  // Code that catches the failure on purpose may continue.
  return failing.failed();
}

}  // namespace

void expectUnchangedByFailures(const std::string& name, const std::function<ObservedCall()>& make) {
  SCOPED_TRACE(name);
  const ObservedCall whole = make();
  const std::vector<uint32_t> first = bitsOf(whole()), second = bitsOf(whole());
  constexpr int64_t kMostAllocations = 20'000;
  int64_t n = 0;
  for (; n < kMostAllocations; ++n) {
    const ObservedCall call = make();
    if (!failsAt(call, n)) break;
    ASSERT_EQ(bitsOf(call()), first) << "after allocation " << n << " failed";
    ASSERT_EQ(bitsOf(call()), second) << "in the second call after allocation " << n << " failed";
  }
  EXPECT_GT(n, 0) << "the call allocates nothing";
  EXPECT_LT(n, kMostAllocations);
}

std::vector<float> valuesOf(std::initializer_list<RowMajorMatrix> matrices) {
  std::vector<float> all;
  for (const RowMajorMatrix& m : matrices) all.insert(all.end(), m.data(), m.data() + m.size());
  return all;
}

std::vector<float> valuesOf(Module& module) {
  std::vector<float> all;
  for (const Parameter& p : module.parameters()) {
    std::vector<float> own(static_cast<size_t>(p.shape.size()));
    p.read(0, p.shape[0], own.data());
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace heed::test
