#include "heed/multi_head_attention.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "core/row_parts.h"
#include "gemm/gemm.h"

namespace heed {
namespace {

/// Checks the options and fills in defaults.
MultiHeadAttentionOptions completed(MultiHeadAttentionOptions o) {
  requireAtLeast("embedDim", o.embed_dim, 1);
  requireAtLeast("numHeads", o.num_heads, 1);
  if (o.key_value_heads == 0) o.key_value_heads = o.num_heads;
  if (o.key_value_heads < 1 || o.num_heads % o.key_value_heads != 0) {
    refuse(ErrorCode::kInvalidArgument, "keyValueHeads", "a divisor of numHeads (" + std::to_string(o.num_heads) + ")",
           std::to_string(o.key_value_heads));
  }
  requireAtLeast("keyDim", o.key_dim, 0);
  requireAtLeast("valueDim", o.value_dim, 0);
  requireAtLeast("keyInputDim", o.key_input_dim, 0);
  requireAtLeast("valueInputDim", o.value_input_dim, 0);
  requireRate("dropout", o.dropout);
  if ((o.key_dim == 0 || o.value_dim == 0) && o.embed_dim % o.num_heads != 0) {
    refuse(ErrorCode::kInvalidArgument, "numHeads",
           "a divisor of embedDim (" + std::to_string(o.embed_dim) + ") unless keyDim and valueDim are given",
           std::to_string(o.num_heads));
  }
  if (o.key_dim == 0) o.key_dim = o.embed_dim / o.num_heads;
  if (o.value_dim == 0) o.value_dim = o.embed_dim / o.num_heads;
  if (o.key_input_dim == 0) o.key_input_dim = o.embed_dim;
  if (o.value_input_dim == 0) o.value_input_dim = o.embed_dim;
  // These checks also bound each factor, so that their products below cannot overflow.
  requireRoom("q_proj_weight", {o.num_heads, o.key_dim, o.embed_dim});
  requireRoom("k_proj_weight", {o.key_value_heads, o.key_dim, o.key_input_dim});
  requireRoom("v_proj_weight", {o.key_value_heads, o.value_dim, o.value_input_dim});
  requireRoom("out_proj.weight", {o.embed_dim, o.num_heads, o.value_dim});
  return o;
}

LinearOptions projection(const MultiHeadAttentionOptions& o, Index in, Index out) {
  return {.in_features = in, .out_features = out, .bias = o.bias, .activation = o.activation, .precision = o.precision};
}

Product product(const Linear& linear, MatrixView out) {
  return {&linear.weight(), {.bias = linear.bias(), .activation = linear.options().activation}, out};
}

/// Whether both are the same view, so that it can be packed once for both.
bool sameRows(ConstMatrixView a, ConstMatrixView b) {
  return a.data() == b.data() && a.rows() == b.rows() && a.cols() == b.cols() && a.outerStride() == b.outerStride();
}

/// Normalizes each head of x in place, or all of them together: as many columns as the norm has.
void normalizeHeads(const LayerNorm& norm, MatrixView x, Context& context) {
  const Index width = norm.options().normalized_shape;
  forRowParts(x.rows(), x.cols(), context, [&](Index begin, Index end) {
    for (Index first = 0; first < x.cols(); first += width) {
      const MatrixView head = view(x.data() + begin * x.outerStride() + first, end - begin, width, x.outerStride());
      norm.forward(readOnly(head), head);
    }
  });
}

/// One parameter with the rows of three, one after the other: PyTorch's in_proj_weight and in_proj_bias.
Parameter stacked(const char* name, InitialValue initial, const std::array<Parameter, 3>& three) {
  Parameter all = three[0];
  all.name = name;
  all.initial = initial;
  std::vector<Index> extents = all.shape.extents();
  for (size_t i = 1; i < 3; ++i) {
    extents[0] += three[i].shape[0];
    all.parts.push_back(three[i].parts[0]);
  }
  all.shape = Shape(std::move(extents));
  return all;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionOptions& options)
    : options_(completed(options)),
      q_proj_(projection(options_, options_.embed_dim, options_.num_heads * options_.key_dim)),
      k_proj_(projection(options_, options_.key_input_dim, options_.key_value_heads * options_.key_dim)),
      v_proj_(projection(options_, options_.value_input_dim, options_.key_value_heads * options_.value_dim)),
      out_proj_({.in_features = options_.num_heads * options_.value_dim,
                 .out_features = options_.embed_dim,
                 .bias = options_.bias,
                 .precision = options_.precision}),
      dropout_({.p = options_.dropout}) {
  if (options_.position_projections) {
    pos_key_proj_.emplace(projection(options_, options_.embed_dim, options_.num_heads * options_.key_dim));
    pos_query_proj_.emplace(projection(options_, options_.embed_dim, options_.num_heads * options_.key_dim));
  }
  if (!options_.qk_norm) return;
  const Index joint = options_.num_heads * options_.key_dim;
  if (options_.qk_norm->normalized_shape != joint || options_.key_value_heads != options_.num_heads)
    requireShape("qkNorm", {options_.qk_norm->normalized_shape}, {options_.key_dim});
  q_norm_.emplace(*options_.qk_norm);
  k_norm_.emplace(*options_.qk_norm);
}

void MultiHeadAttention::forward(const AttentionInput& input, const MultiHeadCallOptions& options,
                                 const MultiHeadOutput& result, Context& context) {
  const auto& [query, key, value, queries, keys] = input;
  requireShape("query", query, queries.totalRows(), options_.embed_dim);
  const Arena::Scope scope(context.arena);
  const MatrixView q = context.arena.matrix(query.rows(), options_.num_heads * options_.key_dim);
  const MatrixView k = context.arena.matrix(key.rows(), options_.key_value_heads * options_.key_dim);
  const MatrixView v = context.arena.matrix(value.rows(), options_.key_value_heads * options_.value_dim);
  project(query, key, value, q, k, v, context);
  if (options.rotary) {
    rotate(*options.rotary, queries, options.query_offset, q);
    rotate(*options.rotary, keys, 0, k);
  }
  attend({readOnly(q), readOnly(k), readOnly(v), queries, keys}, options, result, context);
}

void MultiHeadAttention::project(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, MatrixView q,
                                 MatrixView k, MatrixView v, Context& context) const {
  if (!sameRows(query, key) || !sameRows(key, value)) {
    projectQuery(query, q, context);
    projectKeyValue(key, value, k, v, context);
  } else {
    requireColumns("query", query, options_.embed_dim);
    requireColumns("key", key, options_.key_input_dim);
    requireColumns("value", value, options_.value_input_dim);
    matmul(query, std::array{product(q_proj_, q), product(k_proj_, k), product(v_proj_, v)}, context);
  }
  if (q_norm_) normalizeHeads(*q_norm_, q, context);
  if (k_norm_) normalizeHeads(*k_norm_, k, context);
}

void MultiHeadAttention::projectQuery(ConstMatrixView query, MatrixView q, Context& context) const {
  requireColumns("query", query, options_.embed_dim);
  q_proj_.forward(query, q, context);
}

void MultiHeadAttention::projectKeyValue(ConstMatrixView key, ConstMatrixView value, MatrixView k, MatrixView v,
                                         Context& context) const {
  requireColumns("key", key, options_.key_input_dim);
  requireShape("value", value, key.rows(), options_.value_input_dim);
  if (sameRows(key, value)) return matmul(key, std::array{product(k_proj_, k), product(v_proj_, v)}, context);
  k_proj_.forward(key, k, context);
  v_proj_.forward(value, v, context);
}

void MultiHeadAttention::attend(const AttentionInput& projected, const AttentionOptions& options,
                                const MultiHeadOutput& result, Context& context) {
  const Arena::Scope scope(context.arena);
  AttentionOptions call = options;
  call.key_heads = options_.key_value_heads;
  if (dropout_.active()) {
    call.dropout = options_.dropout;
    call.dropout_key = dropout_.nextKey();
  }
  const MatrixView heads = context.arena.matrix(projected.query.rows(), options_.num_heads * options_.value_dim);
  attention(projected, options_.num_heads, call, {heads, result.weights}, context);
  out_proj_.forward(readOnly(heads), result.output, context, result.residual);
}

void MultiHeadAttention::rotate(const Rotary& rotary, const Sequences& sequences, Index first_position,
                                MatrixView x) const {
  for (Index n = 0; n < sequences.count(); ++n) {
    float* rows = x.data() + sequences.begin(n) * x.outerStride();
    rotary.rotate(view(rows, sequences.length(n), x.cols(), x.outerStride()), x.cols() / options_.key_dim,
                  first_position);
  }
}

std::vector<Module::Child> MultiHeadAttention::children() {
  std::vector<Child> all = {{"", &dropout_}};
  if (pos_key_proj_ && pos_query_proj_)
    all.insert(all.end(), {{"pos_key_proj", &*pos_key_proj_}, {"pos_query_proj", &*pos_query_proj_}});
  if (q_norm_ && k_norm_) all.insert(all.end(), {{"q_norm", &*q_norm_}, {"k_norm", &*k_norm_}});
  return all;
}

std::vector<Parameter> MultiHeadAttention::ownParameters() {
  std::vector<Parameter> q = q_proj_.ownParameters(), k = k_proj_.ownParameters(), v = v_proj_.ownParameters(), own;
  const auto xavier = [](const Shape& shape) { return InitialValue::xavier(shape[0], shape[1]); };
  const Index width = options_.embed_dim, heads = options_.num_heads;
  if (options_.key_input_dim == width && options_.value_input_dim == width && heads * options_.key_dim == width &&
      heads * options_.value_dim == width && heads == options_.key_value_heads) {
    own.push_back(stacked("in_proj_weight", xavier({3 * width, width}), {q[0], k[0], v[0]}));
  } else {
    for (const auto& [name, part] :
         {std::pair{"q_proj_weight", &q[0]}, {"k_proj_weight", &k[0]}, {"v_proj_weight", &v[0]}}) {
      part->name = name;
      part->initial = xavier(part->shape);
      own.push_back(*part);
    }
  }
  if (options_.bias) own.push_back(stacked("in_proj_bias", InitialValue::constant(0), {q[1], k[1], v[1]}));
  for (Parameter& p : out_proj_.ownParameters()) {
    p.name = "out_proj." + p.name;
    if (p.kind == ParameterKind::kBias) p.initial = InitialValue::constant(0);
    own.push_back(std::move(p));
  }
  return own;
}

}  // namespace heed
