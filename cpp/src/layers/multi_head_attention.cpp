#include "heed/multi_head_attention.h"

#include <algorithm>
#include <array>

#include "core/check.h"

namespace heed {
namespace {

/// Checks the options and fills in defaults.
MultiHeadAttentionOptions completed(MultiHeadAttentionOptions o) {
  requireAtLeast("embedDim", o.embed_dim, 1);
  requireAtLeast("numHeads", o.num_heads, 1);
  if (o.key_value_heads == 0) o.key_value_heads = o.num_heads;
  if (o.key_value_heads < 1 || o.num_heads % o.key_value_heads != 0) {
    throwInvalid(ErrorCode::kInvalidArgument, "keyValueHeads",
                 "a divisor of numHeads (" + std::to_string(o.num_heads) + ")", std::to_string(o.key_value_heads));
  }
  requireAtLeast("keyDim", o.key_dim, 0);
  requireAtLeast("valueDim", o.value_dim, 0);
  requireAtLeast("keyInputDim", o.key_input_dim, 0);
  requireAtLeast("valueInputDim", o.value_input_dim, 0);
  requireRate("dropout", o.dropout);
  if ((o.key_dim == 0 || o.value_dim == 0) && o.embed_dim % o.num_heads != 0) {
    throwInvalid(ErrorCode::kInvalidArgument, "numHeads",
                 "a divisor of embedDim (" + std::to_string(o.embed_dim) + ") unless keyDim and valueDim are given",
                 std::to_string(o.num_heads));
  }
  if (o.key_dim == 0) o.key_dim = o.embed_dim / o.num_heads;
  if (o.value_dim == 0) o.value_dim = o.embed_dim / o.num_heads;
  if (o.joint_qk_norm) requireRange("keyValueHeads", o.key_value_heads, o.num_heads, o.num_heads);
  if (o.key_input_dim == 0) o.key_input_dim = o.embed_dim;
  if (o.value_input_dim == 0) o.value_input_dim = o.embed_dim;
  // These checks also bound each factor, so that their products below cannot overflow.
  requireRoom("q_proj_weight", {o.num_heads, o.key_dim, o.embed_dim});
  requireRoom("k_proj_weight", {o.key_value_heads, o.key_dim, o.key_input_dim});
  requireRoom("v_proj_weight", {o.key_value_heads, o.value_dim, o.value_input_dim});
  requireRoom("out_proj.weight", {o.embed_dim, o.num_heads, o.value_dim});
  o.norm.normalized_shape = o.key_dim * (o.joint_qk_norm ? o.num_heads : 1);
  return o;
}

LinearOptions projection(const MultiHeadAttentionOptions& o, Index in, Index out, Activation activation) {
  return {.in_features = in, .out_features = out, .bias = o.bias, .activation = activation, .precision = o.precision};
}

Value normalized(Evaluator& e, const std::optional<LayerNorm>& norm, const Value& x) {
  return norm ? e.normalize(*norm, x, true) : x;
}

/// One parameter that concatenates the rows of three, as PyTorch's in_proj_weight and in_proj_bias.
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
      q_proj_(
          projection(options_, options_.embed_dim, options_.num_heads * options_.key_dim, options_.query_activation)),
      k_proj_(projection(options_, options_.key_input_dim, options_.key_value_heads * options_.key_dim,
                         options_.key_activation)),
      v_proj_(projection(options_, options_.value_input_dim, options_.key_value_heads * options_.value_dim,
                         options_.value_activation)),
      out_proj_({.in_features = options_.num_heads * options_.value_dim,
                 .out_features = options_.embed_dim,
                 .bias = options_.bias,
                 .precision = options_.precision}),
      dropout_({.p = options_.dropout}) {
  if (options_.position_projections) {
    const Index width = options_.num_heads * options_.key_dim;
    if (options_.content_to_position)
      pos_key_proj_.emplace(projection(options_, options_.embed_dim, width, options_.key_activation));
    if (options_.position_to_content)
      pos_query_proj_.emplace(projection(options_, options_.embed_dim, width, options_.query_activation));
  }
  if (options_.value_norm) {
    v_norm_.emplace(LayerNormOptions{
        .normalized_shape = options_.value_dim, .eps = options_.norm.eps, .elementwise_affine = false, .rms = true});
  }
  if (!options_.qk_norm && !options_.joint_qk_norm) return;
  q_norm_.emplace(options_.norm);
  k_norm_.emplace(options_.norm);
}

Value MultiHeadAttention::forward(Evaluator& e, const AttentionInput& input, const AttentionOptions& options,
                                  float* weights, const Value* residual) {
  const auto& [query, key, value, queries, keys] = input;
  requireShape("query", query.values(), queries.totalRows(), options_.embed_dim);
  auto [q, k, v] = project(e, query, key, value);
  if (options.rotary) {
    q = e.rotate(*options.rotary, q, queries, options_.num_heads, options.query_offset);
    k = e.rotate(*options.rotary, k, keys, options_.key_value_heads, 0);
    if (options.rotary_values) v = e.rotate(*options.rotary, v, keys, options_.key_value_heads, 0);
  }
  q = e.at(Site::kQueries, q, options_.num_heads);
  k = e.at(Site::kKeys, k, options_.key_value_heads);
  v = e.at(Site::kValues, v, options_.key_value_heads);
  return attend(e, {q, k, v, queries, keys}, options, weights, residual);
}

MultiHeadAttention::Projections MultiHeadAttention::project(Evaluator& e, const Value& query, const Value& key,
                                                            const Value& value) const {
  if (query == key && key == value) {
    requireColumns("key", key.values(), options_.key_input_dim);
    requireColumns("value", value.values(), options_.value_input_dim);
    const std::array layers = {&q_proj_, &k_proj_, &v_proj_};
    std::array<Value, 3> projected;
    forwardAll(e, layers, query, projected.data());
    return {normalized(e, q_norm_, projected[0]), normalized(e, k_norm_, projected[1]),
            normalized(e, v_norm_, projected[2])};
  }
  const Value q = projectQuery(e, query);
  Projections all = projectKeyValue(e, key, value);
  all.query = q;
  return all;
}

Value MultiHeadAttention::projectQuery(Evaluator& e, const Value& query) const {
  requireColumns("query", query.values(), options_.embed_dim);
  return normalized(e, q_norm_, q_proj_.forward(e, query));
}

MultiHeadAttention::Projections MultiHeadAttention::projectKeyValue(Evaluator& e, const Value& key,
                                                                    const Value& value) const {
  requireColumns("key", key.values(), options_.key_input_dim);
  requireShape("value", value.values(), key.rows(), options_.value_input_dim);
  if (key != value) {
    const Value k = normalized(e, k_norm_, k_proj_.forward(e, key));
    return {{}, k, normalized(e, v_norm_, v_proj_.forward(e, value))};
  }
  const std::array layers = {&k_proj_, &v_proj_};
  std::array<Value, 2> projected;
  forwardAll(e, layers, key, projected.data());
  return {{}, normalized(e, k_norm_, projected[0]), normalized(e, v_norm_, projected[1])};
}

Value MultiHeadAttention::attend(Evaluator& e, const AttentionInput& projected, const AttentionOptions& options,
                                 float* weights, const Value* residual) {
  AttentionOptions call = options;
  call.key_heads = options_.key_value_heads;
  DisentangledPositions positions;
  if (options.positions && !options.positions->key && !options.positions->query) {
    positions = *options.positions;
    projectPositions(e, positions);
    call.positions = &positions;
  }
  if (dropout_.active()) {
    call.dropout = dropout_.options().p;
    call.dropout_key = dropout_.nextKey();
  }
  const Value heads = e.at(Site::kHeads, e.attention(projected, options_.num_heads, call, weights), options_.num_heads);
  return out_proj_.forward(e, heads, residual, true);
}

void MultiHeadAttention::projectPositions(Evaluator& e, DisentangledPositions& positions) const {
  if (options_.content_to_position)
    positions.key = (pos_key_proj_ ? *pos_key_proj_ : k_proj_).forward(e, positions.embeddings);
  if (options_.position_to_content)
    positions.query = (pos_query_proj_ ? *pos_query_proj_ : q_proj_).forward(e, positions.embeddings);
}

bool MultiHeadAttention::decoratesPositions() const {
  const Linear &key = pos_key_proj_ ? *pos_key_proj_ : k_proj_, &query = pos_query_proj_ ? *pos_query_proj_ : q_proj_;
  return key.decorator() != nullptr || query.decorator() != nullptr;
}

std::vector<Linear*> MultiHeadAttention::linears() {
  std::vector<Linear*> all = {&q_proj_, &k_proj_, &v_proj_, &out_proj_};
  if (pos_key_proj_) all.push_back(&*pos_key_proj_);
  if (pos_query_proj_) all.push_back(&*pos_query_proj_);
  return all;
}

std::vector<Module::Child> MultiHeadAttention::children() {
  std::vector<Child> all = {{"", &dropout_}};
  if (pos_key_proj_) all.push_back({"pos_key_proj", &*pos_key_proj_});
  if (pos_query_proj_) all.push_back({"pos_query_proj", &*pos_query_proj_});
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
