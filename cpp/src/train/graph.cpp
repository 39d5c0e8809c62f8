#include "heed/train/graph.h"

#include <algorithm>

#include "core/check.h"

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

Backward::Backward(Graph& graph, const Variable& output, Matrix&& seed)
    : graph_(graph), is_outermost_(graph.pass_ == 0) {
  requireShape("gradient", seed.values(), output.rows(), output.cols());
  if (!output.node()) return;
  if (output.node()->generation != graph.generation())
    throw Error(ErrorCode::kInvalidArgument, "backward: the parameters have changed since the forward pass");
  remember(output.node());
  waiting_.push(output.node());
  give(output.node(), std::move(seed));
  if (is_outermost_) graph_.pass_ = Node::nextOrder() + 1;
}

namespace {

/// Sets a value within a scope.
class Assigned {
 public:
  Assigned(uint64_t& to, uint64_t value) : to_(to), before_(std::exchange(to, value)) {}
  ~Assigned() { to_ = before_; }
  Assigned(const Assigned&) = delete;
  Assigned& operator=(const Assigned&) = delete;

 private:
  uint64_t& to_;
  const uint64_t before_;
};

}  // namespace

Backward::~Backward() {
  for (; !waiting_.empty(); waiting_.pop()) {
    if (!waiting_.top()->leaf) waiting_.top()->gradient = Matrix();
  }
  if (!is_outermost_) return;
  const uint64_t pass = std::exchange(graph_.pass_, 0);
  if (has_ended_ || pass == 0) return;
  for (auto& [leaf, before] : leaves_) leaf->gradient = std::move(before);
  for (ParameterGradients* gradients : graph_.gradients_) gradients->abandon(pass);
}

void Backward::remember(const std::shared_ptr<Node>& leaf) {
  if (!is_outermost_ || !leaf->leaf) return;
  if (std::ranges::any_of(leaves_, [&](const auto& each) { return each.first == leaf; })) return;
  leaves_.emplace_back(leaf, leaf->gradient.data() ? Matrix(leaf->gradient.values()) : Matrix());
}

std::shared_ptr<Node> Backward::proceed(Matrix& gradient) {
  while (!waiting_.empty()) {
    std::shared_ptr<Node> node = waiting_.top();
    // A node is in the queue once per node that uses it.
    while (!waiting_.empty() && waiting_.top() == node) waiting_.pop();
    // A node without a gradient was not reached by this pass.
    if (node->leaf || !node->gradient.data()) continue;
    gradient = std::move(node->gradient);
    node->gradient = Matrix();
    for (const std::shared_ptr<Node>& input : node->inputs) {
      if (!input) continue;
      remember(input);
      waiting_.push(input);
    }
    if (node->external) return node;
    // A backward function that recomputes a layer runs a nested pass. There, the order of the outer node still applies.
    const Assigned scope(graph_.differentiated_, std::min(graph_.differentiated_, node->order));
    node->backward(gradient, *this);
    // The node and its saved matrices are freed here, unless something else refers to the node.
  }
  has_ended_ = true;
  return nullptr;
}

void Backward::run(Graph& graph, Variable output, Matrix&& seed) {
  Backward pass(graph, output, std::move(seed));
  output = {};
  Matrix gradient;
  if (pass.proceed(gradient))
    throwInvalid(ErrorCode::kUnsupported, "backward", "operations with gradients in C++",
                 "an operation whose gradient the caller computes");
}

void Backward::give(const std::shared_ptr<Node>& node, Matrix&& gradient) {
  if (!node) return;
  if (!node->gradient.data()) {
    node->gradient = std::move(gradient);
  } else {
    node->gradient.view() += gradient.values();
  }
}

MatrixView Backward::gradient(const std::shared_ptr<Node>& node) {
  if (!node) return view(static_cast<float*>(nullptr), 0, 0);
  add(node, [](MatrixView out, const ConstMatrixView* residual) {
    if (!residual) out.setZero();
  });
  return node->gradient.view();
}

float* Backward::tableRow(const void* key, Index row) {
  float* found = nullptr;
  graph_.forEachPart(key, [&](ParameterGradients& gradients, const ParameterGradients::Location& location) {
    const Index part_row = row - location.storage_row;
    if (part_row < 0 || part_row >= location.rows) return;
    gradients.reach(location.parameter, graph_.pass_);
    found = gradients.row(location, part_row);
  });
  return found;
}

}  // namespace heed::train
