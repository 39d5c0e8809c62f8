#include <gtest/gtest.h>

#include <vector>

#include "fuzz/core_fuzz.h"
#include "heed/random.h"

namespace heed {
namespace {

TEST(Fuzz, RandomCallsGiveAResultOrAnError) {
  Generator generator(20);
  std::vector<uint8_t> bytes(200);
  for (int run = 0; run < 3000; ++run) {
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(generator.next() >> 24);
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());  // aborts if a property is violated
  }
}

}  // namespace
}  // namespace heed
