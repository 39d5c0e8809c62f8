#include "core/check.h"
#include "heed/attention.h"
#include "ops/broadcast.h"

namespace heed {
namespace {

/// All axes but the last two.
Shape leadingAxes(const Shape& shape) {
  return Shape(std::vector<Index>(shape.extents().begin(), shape.extents().end() - 2));
}

/// The shape of matrices (rows, columns) with these leading axes.
Shape matrices(const Shape& leading, Index rows, Index columns) {
  std::vector<Index> extents = leading.extents();
  extents.push_back(rows);
  extents.push_back(columns);
  return Shape(std::move(extents));
}

/// The offset of the b-th matrix, counted over the leading axes, in a tensor with these strides.
Index matrixOffset(const Shape& leading, const std::vector<Index>& strides, Index b) {
  Index offset = 0;
  for (Index axis = leading.rank() - 1; axis >= 0; --axis) {
    offset += b % leading[axis] * strides[static_cast<size_t>(axis)];
    b /= leading[axis];
  }
  return offset;
}

}  // namespace

BatchedAttention::BatchedAttention(const Shape& query, const Shape& key, const Shape& value)
    : query_(query), key_(key), value_(value) {
  if (query.rank() < 2) refuseShape("query", "[..., L, Dk]", query);
  leading_ = leadingAxes(query);
  const auto join = [&](const char* argument, const Shape& shape, bool fits, const std::string& matrix) {
    std::optional<Shape> joined;
    if (fits) joined = broadcastShape(leading_, leadingAxes(shape));
    if (!joined) {
      refuseShape(argument,
                  "[..., " + matrix + "] whose leading axes broadcast with those of query, " + query.toString(), shape);
    }
    leading_ = *joined;
  };
  join("key", key, key.rank() >= 2 && key[-1] == query[-1], "S, " + std::to_string(query[-1]));
  join("value", value, value.rank() >= 2 && value[-2] == key[-2], std::to_string(key[-2]) + ", Dv");
  output_ = matrices(leading_, query[-2], value[-1]);
  weights_ = matrices(leading_, query[-2], key[-2]);
}

void BatchedAttention::forward(const float* query, const float* key, const float* value,
                               const AttentionOptions& options, float* output, float* weights, Context& context) const {
  const MaskTensor* mask = options.masks.empty() ? nullptr : options.masks.data();
  const Index num_queries = query_[-2], num_keys = key_[-2], value_width = value_[-1];
  const auto strides = [&](const Shape& shape) {
    return *broadcastStrides(shape, matrices(leading_, shape[-2], shape[-1]));
  };
  const std::vector<Index> query_strides = strides(query_), key_strides = strides(key_),
                           value_strides = strides(value_);
  std::vector<Index> mask_strides;
  std::optional<MaskTensor> matrix_mask;  // the mask of one matrix
  if (mask) {
    Shape shape = mask->shape;
    // A mask for multi-head scores, [N, 1, L, S], also applies to scores [N, L, S].
    if (weights_.rank() == 3 && shape.rank() == 4 && shape[1] == 1) shape = {shape[0], shape[2], shape[3]};
    const auto broadcast = broadcastStrides(shape, weights_);
    if (!broadcast) refuseShape(mask->argument, "a shape that broadcasts to " + weights_.toString(), mask->shape);
    mask_strides = *broadcast;
    const auto extent = [&](Index axis) { return shape.rank() < axis ? 1 : shape[-axis]; };
    matrix_mask = {mask->argument, mask->kind, nullptr, {extent(2), extent(1)}};
  }
  const Sequences queries = Sequences::uniform(1, num_queries), keys = Sequences::uniform(1, num_keys);
  const RandomScope random(context);
  for (Index b = 0; b < leading_.size(); ++b) {
    AttentionOptions call = options;
    if (matrix_mask) {
      matrix_mask->data = Mask{mask->kind, mask->data, {}}.at(matrixOffset(leading_, mask_strides, b));
      call.masks = {&*matrix_mask, 1};
    }
    const auto matrix = [&](const float* data, const Shape& shape, const std::vector<Index>& by) {
      return Value::constant(view(data + matrixOffset(leading_, by, b), shape[-2], shape[-1]));
    };
    context.random.first_sequence = random.before().first_sequence + b;
    attention({matrix(query, query_, query_strides), matrix(key, key_, key_strides),
               matrix(value, value_, value_strides), queries, keys},
              1, call,
              {view(output + b * num_queries * value_width, num_queries, value_width),
               weights ? weights + b * num_queries * num_keys : nullptr},
              context);
  }
}

}  // namespace heed
