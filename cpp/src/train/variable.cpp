#include "heed/train/variable.h"

#include <algorithm>

#include "core/check.h"

namespace heed::train {

Matrix::Matrix(Index rows, Index columns) : rows_(rows), columns_(columns) {
  const size_t size = requireRoom("activations", {rows, columns});
  // At least one element, so that data() is null only if there is no matrix.
  data_ = std::unique_ptr<float[]>(new float[std::max<size_t>(size, 1)]);
}

Matrix::Matrix(ConstMatrixView values) : Matrix(values.rows(), values.cols()) { view() = values; }

uint64_t Node::nextOrder() {
  static uint64_t next = 0;
  return next++;
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

}  // namespace heed::train
