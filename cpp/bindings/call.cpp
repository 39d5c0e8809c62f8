#include "call.h"

namespace heed::bindings {

std::optional<TensorArgument> InferenceCall::tensor(const char* name) {
  const auto input = readOptionalTensor(arguments()[name]);
  if (!input) return std::nullopt;
  const Shape& shape = input->shape;
  return TensorArgument{shape, view(input->data, shape.rows(), shape.columns()), input->data};
}

void InferenceCall::useSites(const Sequences& queries, const Sequences& keys) {
  sites_ = readSites(arguments()["sites"], queries, keys);
  computing_.setSites(sites_.get());
}

float* weightsFor(const Call& call, const Shape& shape) {
  return readBool(call.arguments(), "returnWeights") ? arena().take<float>(shape.size()) : nullptr;
}

}  // namespace heed::bindings
