#include "heed/multi_head_attention.h"

#include <array>

#include "kernels/matmul.h"

namespace heed {
namespace {

MultiHeadAttentionOptions completed(MultiHeadAttentionOptions o) {
  if (o.embed_dim < 1) throw Error(ErrorCode::kInvalidArgument, "embedDim: got " + std::to_string(o.embed_dim) + "; expected at least 1");
  if (o.num_heads < 1) throw Error(ErrorCode::kInvalidArgument, "numHeads: got " + std::to_string(o.num_heads) + "; expected at least 1");
  if ((o.key_dim == 0 || o.value_dim == 0) && o.embed_dim % o.num_heads != 0) {
    throw Error(ErrorCode::kInvalidArgument, "numHeads: got " + std::to_string(o.num_heads) + "; expected a divisor of embedDim, " +
                                                 std::to_string(o.embed_dim) + ", or keyDim and valueDim given");
  }
  if (o.key_dim == 0) o.key_dim = o.embed_dim / o.num_heads;
  if (o.value_dim == 0) o.value_dim = o.embed_dim / o.num_heads;
  if (o.key_input_dim == 0) o.key_input_dim = o.embed_dim;
  if (o.value_input_dim == 0) o.value_input_dim = o.embed_dim;
  return o;
}

LinearOptions projection(const MultiHeadAttentionOptions& o, Index in, Index head_width) {
  return {.in_features = in, .out_features = o.num_heads * head_width, .bias = o.bias, .activation = o.activation, .precision = o.precision};
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
    each(first, count, [&](const Parameter& p, Index low, Index rows, Index before) { p.read(low, rows, out + before * row); });
  };
  all.write = [each, row](Index first, Index count, const float* in) {
    each(first, count, [&](const Parameter& p, Index low, Index rows, Index before) { p.write(low, rows, in + before * row); });
  };
  if (parts[0].writeInt8) {
    all.writeInt8 = [each, row](Index first, Index count, const signed char* in, const float* scales) {
      each(first, count, [&](const Parameter& p, Index low, Index rows, Index before) { p.writeInt8(low, rows, in + before * row, scales + before); });
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
                 .precision = options_.precision}),
      generator_(0) {}

void MultiHeadAttention::forward(ConstMatrixView query, ConstMatrixView key, ConstMatrixView value, const Sequences& queries,
                                 const Sequences& keys, const MultiHeadCallOptions& options, MatrixView output, float* weights, Arena& arena,
                                 const ConstMatrixView* residual) {
  const Arena::Scope scope(arena);
  const Index heads = options_.num_heads;
  MatrixView q = arena.matrix(query.rows(), heads * options_.key_dim);
  MatrixView k = arena.matrix(key.rows(), heads * options_.key_dim);
  MatrixView v = arena.matrix(value.rows(), heads * options_.value_dim);
  if (query.data() == key.data() && key.data() == value.data() && query.rows() == key.rows()) {
    const auto product = [&](const Linear& l, MatrixView out) {
      return Product{&l.weight(), {.bias = l.bias(), .activation = options_.activation}, out};
    };
    const std::array<Product, 3> products{product(q_proj_, q), product(k_proj_, k), product(v_proj_, v)};
    matmul(query, products, arena);
  } else {
    projectQuery(query, q, arena);
    projectKeyValue(key, value, k, v, arena);
  }
  if (options.rotary) {
    const auto rotate = [&](MatrixView x, const Sequences& sequences, Index offset) {
      for (Index n = 0; n < sequences.count(); ++n) {
        MatrixView rows = view(x.data() + sequences.begin(n) * x.outerStride(), sequences.length(n), x.cols(), x.outerStride());
        options.rotary->rotate(rows, heads, offset);
      }
    };
    rotate(q, queries, options.query_offset);
    rotate(k, keys, 0);
  }
  attend(readOnly(q), readOnly(k), readOnly(v), queries, keys, options, output, weights, arena, residual);
}

void MultiHeadAttention::projectQuery(ConstMatrixView query, MatrixView q, Arena& arena) const { q_proj_.forward(query, q, arena); }

void MultiHeadAttention::projectKeyValue(ConstMatrixView key, ConstMatrixView value, MatrixView k, MatrixView v, Arena& arena) const {
  k_proj_.forward(key, k, arena);
  v_proj_.forward(value, v, arena);
}

void MultiHeadAttention::attend(ConstMatrixView q, ConstMatrixView k, ConstMatrixView v, const Sequences& queries, const Sequences& keys,
                                const AttentionOptions& options, MatrixView output, float* weights, Arena& arena,
                                const ConstMatrixView* residual) {
  const Arena::Scope scope(arena);
  AttentionOptions call = options;
  if (training() && options_.dropout > 0) {
    call.dropout = options_.dropout;
    call.generator = &generator_;
  }
  MatrixView mixed = arena.matrix(q.rows(), options_.num_heads * options_.value_dim);
  attention(q, k, v, options_.num_heads, queries, keys, call, mixed, weights, arena);
  out_proj_.forward(readOnly(mixed), output, arena, residual);
}

void MultiHeadAttention::collect(const std::string& prefix, std::vector<Parameter>& out) {
  std::vector<Parameter> q, k, v;
  q_proj_.collect("", q);
  k_proj_.collect("", k);
  v_proj_.collect("", v);
  const Index width = options_.embed_dim, heads = options_.num_heads;
  const bool packed = options_.key_input_dim == width && options_.value_input_dim == width && heads * options_.key_dim == width &&
                      heads * options_.value_dim == width;
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
