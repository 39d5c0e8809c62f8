#include "heed/train/graph.h"

#include <algorithm>

namespace heed::train {

void Graph::forget(const ParameterGradients& gradients) { std::erase(gradients_, &gradients); }

void Graph::invalidate() {
  ++generation_;
  for (ParameterGradients* gradients : gradients_) gradients->forgetRequirements();
}

bool Graph::requiresGradient(const void* key) const {
  bool required = false;
  forEachPart(key, [&](const ParameterGradients&, const ParameterGradients::Location&) { required = true; });
  return required;
}

Variable Graph::leaf(Matrix&& value, bool needs_gradient) {
  auto shared = std::make_shared<const Matrix>(std::move(value));
  if (!needs_gradient) return {std::move(shared), nullptr};
  auto node = std::make_shared<Node>();
  node->order = Node::nextOrder();
  node->generation = generation_;
  node->rows = shared->rows();
  node->columns = shared->cols();
  node->leaf = true;
  return {std::move(shared), std::move(node)};
}

Variable Graph::record(Matrix&& value, std::initializer_list<std::reference_wrapper<const Variable>> inputs,
                       bool uses_parameters, BackwardFunction backward) {
  std::vector<std::shared_ptr<Node>> nodes;
  nodes.reserve(inputs.size());
  for (const Variable& input : inputs) nodes.push_back(input.node());
  return recordNodes(std::move(value), std::move(nodes), uses_parameters, std::move(backward));
}

Variable Graph::record(Matrix&& value, const std::vector<Variable>& inputs, bool uses_parameters,
                       BackwardFunction backward) {
  std::vector<std::shared_ptr<Node>> nodes;
  nodes.reserve(inputs.size());
  for (const Variable& input : inputs) nodes.push_back(input.node());
  return recordNodes(std::move(value), std::move(nodes), uses_parameters, std::move(backward));
}

Variable Graph::recordNodes(Matrix&& value, std::vector<std::shared_ptr<Node>>&& inputs, bool uses_parameters,
                            BackwardFunction&& backward) {
  const bool needed =
      uses_parameters || std::any_of(inputs.begin(), inputs.end(), [](const auto& node) { return node != nullptr; });
  Variable result = leaf(std::move(value), needed);
  if (!needed) return result;
  Node& node = *result.node();
  node.leaf = false;
  node.backward = std::move(backward);
  node.inputs = std::move(inputs);
  return result;
}

Variable Graph::recordExternal(Matrix&& value, const std::vector<Variable>& inputs, std::shared_ptr<void> external) {
  Variable result = record(std::move(value), inputs, false, {});
  if (result.node()) result.node()->external = std::move(external);
  return result;
}

}  // namespace heed::train
