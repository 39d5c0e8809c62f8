#include "heed/train/graph.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "core/check.h"
#include "train/ops/update.h"

namespace heed::train {

Matrix::Matrix(Index rows, Index columns) : rows_(rows), columns_(columns) {
  const size_t size = requireRoom("activations", {rows, columns});
  // At least one element, so that data() is null only if there is no matrix.
  data_ = std::unique_ptr<float[]>(new float[std::max<size_t>(size, 1)]);
}

Matrix::Matrix(ConstMatrixView values) : Matrix(values.rows(), values.cols()) { view() = values; }

namespace {

/// The next number of the sequence that orders nodes, backward passes and changes of Entry::required.
uint64_t nextOrder() {
  static uint64_t next = 0;
  return next++;
}

/// All existing slices. Without run-time type information, this list is the only way to find out whether a part's
/// storage is a RowSlice.
std::vector<const RowSlice*>& slices() {
  static std::vector<const RowSlice*> all;
  return all;
}

}  // namespace

RowSlice::RowSlice(const Parameter::Part& whole, Index first, Index row_size)
    : whole_(whole), first_(first), row_size_(row_size) {
  slices().push_back(this);
}

RowSlice::~RowSlice() { std::erase(slices(), this); }

void RowSlice::write(Index first, Index count, const float* rows) {
  if (whole_.plain) {
    std::copy_n(rows, count * row_size_, whole_.plain + (first_ + first) * row_size_);
  } else {
    whole_.storage->write(first_ + first, count, rows);
  }
}

void RowSlice::writeInt8(Index first, Index count, const signed char* rows, const float* scales) {
  if (!whole_.plain) return whole_.storage->writeInt8(first_ + first, count, rows, scales);
  float* to = whole_.plain + (first_ + first) * row_size_;
  for (Index i = 0; i < count * row_size_; ++i) to[i] = scales[i / row_size_] * static_cast<float>(rows[i]);
}

void RowSlice::read(Index first, Index count, float* rows) const {
  if (whole_.plain) {
    std::copy_n(whole_.plain + (first_ + first) * row_size_, count * row_size_, rows);
  } else {
    whole_.storage->read(first_ + first, count, rows);
  }
}

RowSlice::Place RowSlice::placeOf(const Parameter::Part& part) {
  if (part.plain) return {part.plain, 0};
  for (const RowSlice* slice : slices()) {
    if (slice != part.storage) continue;
    const Place whole = placeOf(slice->whole_);
    return {whole.key, whole.first + slice->first_};
  }
  return {part.storage, 0};
}

ParameterGradients::ParameterGradients(Module& module)
    : parameters_(module.parameters()), entries_(parameters_.size()) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    entries_[i].required = parameters_[i].kind != ParameterKind::kBuffer;
    Index first = 0;
    for (const Parameter::Part& part : parameters_[i].parts) {
      const RowSlice::Place place = RowSlice::placeOf(part);
      locations_.push_back({i, first, part.rows, place.first, place.key});
      first += part.rows;
    }
  }
  std::sort(locations_.begin(), locations_.end(), [](const Location& a, const Location& b) {
    return a.key == b.key ? a.storage_row < b.storage_row : std::less<>()(a.key, b.key);
  });
}

void ParameterGradients::setRequiresGradient(size_t parameter, bool required) {
  Entry& entry = entries_[parameter];
  if (parameters_[parameter].kind == ParameterKind::kBuffer || entry.required == required) return;
  entry.changes.push_back(nextOrder());
  entry.required = required;
}

bool ParameterGradients::requiredGradientAt(size_t parameter, uint64_t order) const {
  const Entry& entry = entries_[parameter];
  const auto later = std::ranges::count_if(entry.changes, [order](uint64_t change) { return change > order; });
  return entry.required == (later % 2 == 0);
}

void ParameterGradients::forgetRequirements() {
  for (Entry& entry : entries_) entry.changes.clear();
}

std::span<const ParameterGradients::Location> ParameterGradients::find(const void* key) const {
  const auto first =
      std::lower_bound(locations_.begin(), locations_.end(), key,
                       [](const Location& location, const void* k) { return std::less<>()(location.key, k); });
  auto last = first;
  while (last != locations_.end() && last->key == key) ++last;
  return {first, last};
}

MatrixView ParameterGradients::dense(const Location& part) {
  const Parameter& parameter = parameters_[part.parameter];
  Entry& entry = entries_[part.parameter];
  if (!entry.dense.data()) {
    entry.dense = Matrix(parameter.shape[0], parameter.rowSize());
    entry.dense.view().setZero();
    // The table had a sparse gradient and is now used as a whole: copy the gradients of its rows.
    for (size_t slot = 0; slot < entry.rows.order.size(); ++slot) {
      const Index width = parameter.rowSize();
      std::copy_n(entry.rows.values.data() + static_cast<Index>(slot) * width, width,
                  entry.dense.data() + entry.rows.order[slot] * width);
    }
    entry.rows = {};
    entry.by_rows = false;
  }
  entry.present = true;
  return heed::view(entry.dense.data() + part.first_row * parameter.rowSize(), part.rows, parameter.rowSize());
}

float* ParameterGradients::row(const Location& table, Index row) {
  Entry& entry = entries_[table.parameter];
  const Index width = parameters_[table.parameter].rowSize();
  if (entry.dense.data()) {
    entry.present = true;
    return entry.dense.data() + (table.first_row + row) * width;
  }
  Rows& rows = entry.rows;
  const Index place = table.first_row + row;
  if (rows.slots.empty()) rows.slots.resize(static_cast<size_t>(parameters_[table.parameter].shape[0]), -1);
  Index& slot = rows.slots[static_cast<size_t>(place)];
  if (slot < 0) {
    rows.values.resize((rows.order.size() + 1) * static_cast<size_t>(width));
    rows.order.push_back(place);
    slot = static_cast<Index>(rows.order.size()) - 1;
  }
  entry.present = entry.by_rows = true;
  return rows.values.data() + slot * width;
}

void ParameterGradients::read(size_t parameter, Index first, Index count, float* out) const {
  requireWhole(parameter);
  const Entry& entry = entries_[parameter];
  const Index width = parameters_[parameter].rowSize();
  if (entry.dense.data()) {
    std::copy_n(entry.dense.data() + first * width, count * width, out);
    return;
  }
  std::fill_n(out, count * width, 0.0f);
  if (!entry.by_rows) return;
  for (Index row = first; row < first + count; ++row) {
    if (const float* values = entry.rows.find(row, width)) std::copy_n(values, width, out + (row - first) * width);
  }
}

void ParameterGradients::add(size_t parameter, Index first, Index count, const float* rows) {
  const Index width = parameters_[parameter].rowSize();
  if (entries_[parameter].by_rows) {
    const auto for_each_row = [&](const auto& f) {
      for (Index r = 0; r < count; ++r) {
        const ConstMatrixView from = heed::view(rows + r * width, 1, width);
        if (!(from.array() == 0).all()) f(row({parameter, 0, 0}, first + r), from);
      }
    };
    // Allocates all rows before it adds to any of them.
    for_each_row([](float*, const ConstMatrixView&) {});
    for_each_row([width](float* to, const ConstMatrixView& from) { heed::view(to, 1, width) += from; });
    entries_[parameter].present = true;
    return;
  }
  dense({parameter, first, count}) += heed::view(rows, count, width);
}

void ParameterGradients::scale(size_t parameter, float factor) {
  Entry& entry = entries_[parameter];
  if (entry.dense.data()) scaleBy(factor, entry.dense.rows() * entry.dense.cols(), entry.dense.data());
  scaleBy(factor, static_cast<Index>(entry.rows.values.size()), entry.rows.values.data());
}

double ParameterGradients::sumOfSquares(size_t parameter) const {
  const Entry& entry = entries_[parameter];
  if (!entry.required || !entry.present) return 0;
  requireWhole(parameter);
  double sum = 0;
  if (entry.dense.data()) sum += squaresOf(entry.dense.rows() * entry.dense.cols(), entry.dense.data());
  return sum + squaresOf(static_cast<Index>(entry.rows.values.size()), entry.rows.values.data());
}

void ParameterGradients::zero(size_t parameter) {
  Entry& entry = entries_[parameter];
  entry.present = entry.is_partial = false;
  entry.dense = Matrix();
  // The order of rows determines how sums over them are rounded. It must not depend on earlier steps, because a resumed
  // run would then differ.
  entry.rows.slots.clear();
  entry.rows.order.clear();
  entry.rows.values.clear();
}

void ParameterGradients::zero() {
  for (size_t i = 0; i < entries_.size(); ++i) zero(i);
}

void ParameterGradients::reach(size_t parameter, uint64_t pass) {
  Entry& entry = entries_[parameter];
  if (entry.pass == pass) return;
  entry.pass = pass;
  entry.was_present = entry.present;
}

void ParameterGradients::abandon(uint64_t pass) {
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.pass != pass) continue;
    if (entry.was_present)
      entry.is_partial = true;
    else
      zero(i);
  }
}

void ParameterGradients::requireWhole(size_t parameter) const {
  if (!entries_[parameter].is_partial) return;
  refuse(ErrorCode::kInvalidArgument, parameters_[parameter].name,
         "a gradient of whole backward passes (call zeroGrad() and repeat them)", "a part of a pass that failed");
}

Node::~Node() {
  // Not recursive, because a long chain would overflow the stack: nodes to destroy are put on a list. The list is
  // linked, because a destructor must not allocate.
  std::shared_ptr<Node> waiting;
  const auto drop = [&waiting](Node& node) {
    std::vector<std::shared_ptr<Node>> dropped = std::move(node.inputs);
    node.backward = {};  // refers to the inputs, too
    for (std::shared_ptr<Node>& input : dropped) {
      if (!input || input.use_count() > 1) {
        input.reset();
        continue;
      }
      input->next_dropped = std::move(waiting);
      waiting = std::move(input);
    }
  };
  drop(*this);
  while (waiting) {
    const std::shared_ptr<Node> node = std::move(waiting);
    waiting = std::move(node->next_dropped);
    drop(*node);
  }
}

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
  node->order = nextOrder();
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
    refuse(ErrorCode::kInvalidArgument, "backward", "a forward pass with the current parameters",
           "one from before they changed");
  remember(output.node());
  waiting_.push(output.node());
  give(output.node(), std::move(seed));
  if (is_outermost_) graph_.pass_ = nextOrder() + 1;
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
    refuse(ErrorCode::kUnsupported, "backward", "operations of the core", "one whose gradient the caller computes");
}

void Backward::give(const std::shared_ptr<Node>& node, Matrix&& gradient) {
  if (!node) return;
  if (!node->gradient.data()) {
    node->gradient = std::move(gradient);
  } else {
    node->gradient.view() += gradient.values();
  }
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
