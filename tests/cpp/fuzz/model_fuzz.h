#pragma once

#include "fuzz/choices.h"

namespace heed::fuzz {

/// Fuzzes a pretrained encoder: decodes a configuration, weights and tokens, makes the model, writes its parameters in
/// ranges of rows, runs texts and pools them. Aborts if the result for a text depends on other texts of the batch, or
/// if finite weights give non-finite numbers.
void fuzzModel(Choices& choose, Context& context);

}  // namespace heed::fuzz
