#include "heed/train/variable.h"

namespace heed::train {

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
