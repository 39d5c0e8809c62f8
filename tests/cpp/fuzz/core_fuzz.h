#pragma once

#include <cstddef>
#include <cstdint>

/// Reads `data` as options, shapes, masks and values of one call of the core and makes it. Aborts where the core breaks
/// its word: anything but a result of finite numbers or a heed::Error. Under libFuzzer this is the target itself.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
