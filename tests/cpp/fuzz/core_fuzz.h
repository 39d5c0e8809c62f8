#pragma once

#include <cstddef>
#include <cstdint>

/// The fuzz target. Decodes `data` as options, shapes, masks and values of one call of the library and makes the call.
/// Aborts unless the call returns finite numbers or throws a heed::Error.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
