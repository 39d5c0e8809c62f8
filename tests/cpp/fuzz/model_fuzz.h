#pragma once

#include "fuzz/choices.h"

namespace heed::fuzz {

/// A pretrained encoder's configuration, weights and tokens, as a model folder and its caller would give them: makes
/// the model, writes its parameters row range by row range, runs texts through it and pools them. Aborts where a text's
/// numbers depend on the texts beside it, or finite weights give something else than finite numbers.
void fuzzModel(Choices& choose, Context& context);

}  // namespace heed::fuzz
