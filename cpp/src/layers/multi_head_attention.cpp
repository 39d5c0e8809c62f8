#include "heed/multi_head_attention.h"

#include <algorithm>
#include <array>

#include "check.h"
#include "gemm/gemm.h"

namespace heed {
namespace {

/// The options with their defaults filled in.
MultiHeadAttentionOptions completed(MultiHeadAttentionOptions o) {
  requireAtLeast("embedDim", o.embed_dim, 1);
  requireAtLeast("numHeads", o.num_heads, 1);
  requireAtLeast("keyDim", o.key_dim, 0);
  requireAtLeast("valueDim", o.value_dim, 0);
  requireAtLeast("keyInputDim", o.key_input_dim, 0);
  requireAtLeast("valueInputDim", o.value_input_dim, 0);
  requireRate("dropout", o.dropout);
  if ((o.key_dim == 0 || o.value_dim == 0) && o.embed_dim % o.num_heads != 0) {
    refuse(ErrorCode::kInvalidArgument, "numHeads", std::to_string(o.num_heads),
           "a divisor of embedDim, " + std::to_string(o.embed_dim) + ", or keyDim and valueDim given");
  }
  if (o.key_dim == 0) o.key_dim = o.embed_dim / o.num_heads;
  if (o.value_dim == 0) o.value_dim = o.embed_dim / o.num_heads;
  if (o.key_input_dim == 0) o.key_input_dim = o.embed_dim;
  if (o.value_input_dim == 0) o.value_input_dim = o.embed_dim;
  // Also bounds each factor, so that their products below cannot overflow.
  requireRoom("q_proj_weight", {o.num_heads, o.key_dim, o.embed_dim});
  requireRoom("k_proj_weight", {o.num_heads, o.key_dim, o.key_input_dim});
  requireRoom("v_proj_weight", {o.num_heads, o.value_dim, o.value_input_dim});
  requireRoom("out_proj.weight", {o.embed_dim, o.num_heads, o.value_dim});
  return o;
}

LinearOptions projection(const MultiHeadAttentionOptions& o, Index in, Index head_width) {
  return {.in_features = in,
          .out_features = o.num_heads * head_width,
          .bias = o.bias,
          .activation = o.activation,
          .precision = o.precision};
}

Product product(const Linear& linear, MatrixView out) {
  return {&linear.weight(), {.bias = linear.bias(), .activation = linear.options().activation}, out};
}

/// Whether both show the same rows, so that one packing serves both.
bool same(ConstMatrixView a, ConstMatrixView b) {
  return a.data() == b.data() && a.rows() == b.rows() && a.cols() == b.cols() && a.outerStride() == b.outerStride();
}

/// The three parameters as one with their rows one after the other: PyTorch's in_proj_weight and in_proj_bias.
Parameter stacked(std::string name, std::array<Parameter, 3> parts) {
  std::vector<Index> extents = parts[0].shape.extents();
  extents[0] = parts[0].shape[0] + parts[1].shape[0] + parts[2].shape[0];
  const Index row = extents.size() > 1 ? extents[1] : 1;
  // Calls f(part, first row in the part, rows, rows before) for each part that [first, first + count) touches.
  const auto each = [parts](Index first, Index count, auto f) {
    Index begin = 0;
    for (const Parameter& part : parts) {
      const Index end = begin + part.shape[0];
      const Index low = std::max(first, begin), high = std::min(first + count, end);
      if (low < high) f(part, low - begin, high - low, low - first);
      begin = end;
    }
  };
  Parameter all;
  all.name = std::move(name);
  all.shape = Shape(std::move(extents));
  all.read = [each, row](Index first, Index count, float* out) {
    each(first, count,
         [&](const Parameter& p, Index low, Index rows, Index before) { p.read(low, rows, out + before * row); });
  };
  all.write = [each, row](Index first, Index count, const float* in) {
    each(first, count,
         [&](const Parameter& p, Index low, Index rows, Index before) { p.write(low, rows, in + before * row); });
  };
  if (parts[0].writeInt8) {
    all.writeInt8 = [each, row](Index first, Index count, const signed char* in, const float* scales) {
      each(first, count, [&](const Parameter& p, Index low, Index rows, Index before) {
        p.writeInt8(low, rows, in + before * row, scales + before);
      });
    };
  }
  return all;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& options)
    : options_(completed(options)),
      q_proj_(projection(options_, options_.embed_dim, options_.key_dim)),
      k_proj_(projection(options_, options_.key_input_dim, options_.key_dim)),
      v_proj_(projection(options_, options_.value_input_dim, options_.value_dim)),
      out_proj_({.in_features = options_.num_heads * options_.value_dim,
                 .out_features = options_.embed_dim,
                 .bias = options_.bias,
                 .precision = options_.precision}) {}

void MultiHeadAttention::forward(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value,
                                 const Sequences& queries, const Sequences& keys, const MultiHeadCallOptions& options,
                                 MatrixView output, float* weights, Arena& arena, const ConstMatrixView* residual) {
  requireShape("query", query, queries.totalRows(), options_.embed_dim);
  const Arena::Scope scope(arena);
  const Index heads = options_.num_heads;
  const MatrixView q = arena.matrix(query.rows(), heads * options_.key_dim);
  const MatrixView k = arena.matrix(key.rows(), heads * options_.key_dim);
  const MatrixView v = arena.matrix(value.rows(), heads * options_.value_dim);
  project(query, key, value, q, k, v, arena);
  if (options.rotary) {
    rotate(*options.rotary, queries, options.query_offset, q);
    rotate(*options.rotary, keys, 0, k);
  }
  attend(readOnly(q), readOnly(k), readOnly(v), queries, keys, options, output, weights, arena, residual);
}

void MultiHeadAttention::project(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, MatrixView q,
                                 MatrixView k, MatrixView v, Arena& arena) const {
  if (!same(query, key) || !same(key, value)) {
    projectQuery(query, q, arena);
    projectKeyValue(key, value, k, v, arena);
    return;
  }
  requireShape("query", query, query.rows(), options_.embed_dim);
  requireShape("key", key, key.rows(), options_.key_input_dim);
  requireShape("value", value, value.rows(), options_.value_input_dim);
  matmul(query, std::array{product(q_proj_, q), product(k_proj_, k), product(v_proj_, v)}, arena);
}

void MultiHeadAttention::projectQuery(ConstMatrixView query, MatrixView q, Arena& arena) const {
  requireShape("query", query, query.rows(), options_.embed_dim);
  q_proj_.forward(query, q, arena);
}

void MultiHeadAttention::projectKeyValue(ConstMatrixView key, ConstMatrixView value, MatrixView k, MatrixView v,
                                         Arena& arena) const {
  requireShape("key", key, key.rows(), options_.key_input_dim);
  requireShape("value", value, key.rows(), options_.value_input_dim);
  if (same(key, value)) return matmul(key, std::array{product(k_proj_, k), product(v_proj_, v)}, arena);
  k_proj_.forward(key, k, arena);
  v_proj_.forward(value, v, arena);
}

void MultiHeadAttention::attend(ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, const Sequences& queries,
                                const Sequences& keys, const AttentionOptions& options, MatrixView output,
                                float* weights, Arena& arena, const ConstMatrixView* residual) {
  const Arena::Scope scope(arena);
  AttentionOptions call = options;
  if (training() && options_.dropout > 0) {
    call.dropout = options_.dropout;
    call.dropout_key = dropout_key_;
    ++dropout_key_.step;
  }
  const MatrixView heads = arena.matrix(q.rows(), options_.num_heads * options_.value_dim);
  attention(q, k, v, options_.num_heads, queries, keys, call, heads, weights, arena);
  out_proj_.forward(readOnly(heads), output, arena, residual);
}

void MultiHeadAttention::rotate(const Rotary& rotary, const Sequences& sequences, Index first_position,
                                MatrixView x) const {
  for (Index n = 0; n < sequences.count(); ++n) {
    float* rows = x.data() + sequences.begin(n) * x.outerStride();
    rotary.rotate(view(rows, sequences.length(n), x.cols(), x.outerStride()), options_.num_heads, first_position);
  }
}

void MultiHeadAttention::collect(const std::string& prefix, std::vector<Parameter>& out) {
  std::vector<Parameter> q, k, v;
  q_proj_.collect("", q);
  k_proj_.collect("", k);
  v_proj_.collect("", v);
  const Index width = options_.embed_dim, heads = options_.num_heads;
  const bool packed = options_.key_input_dim == width && options_.value_input_dim == width &&
                      heads * options_.key_dim == width && heads * options_.value_dim == width;
  if (packed) {
    out.push_back(stacked(prefix + "in_proj_weight", {q[0], k[0], v[0]}));
  } else {
    const char* names[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    Parameter* parts[] = {&q[0], &k[0], &v[0]};
    for (int i = 0; i < 3; ++i) {
      parts[i]->name = prefix + names[i];
      out.push_back(*parts[i]);
    }
  }
  if (options_.bias) out.push_back(stacked(prefix + "in_proj_bias", {q[1], k[1], v[1]}));
  out_proj_.collect(prefix + "out_proj.", out);
}

}  // namespace heed
