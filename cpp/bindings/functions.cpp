#include <emscripten/bind.h>
#include <emscripten/version.h>

#include <algorithm>
#include <array>

#include "check.h"
#include "convert.h"
#include "heed/linear.h"
#include "heed/norm.h"
#include "kernels/softmax.h"

namespace heed::bindings {
namespace {

std::string shapes(const char* argument, const Shape& got, const std::string& expected) {
  return std::string(argument) + ": got shape " + got.toString() + "; expected " + expected;
}

/// How a tensor broadcasts from the right to a shape with more or larger axes: the elements that it steps along each of
/// these, 0 along one that it repeats.
class Broadcast {
 public:
  Broadcast(const Shape& shape, const Shape& target) : steps_(static_cast<size_t>(target.rank())), target_(target) {
    Index stride = 1;
    fits_ = shape.rank() <= target.rank();
    for (Index back = 1; fits_ && back <= shape.rank(); ++back) {
      const Index extent = shape[-back];
      fits_ = extent == 1 || extent == target[-back];
      steps_[static_cast<size_t>(target.rank() - back)] = extent == 1 ? 0 : stride;
      stride *= extent;
    }
  }
  bool fits() const { return fits_; }
  /// Where the target's b-th matrix, its last two axes, begins.
  Index matrix(Index b) const {
    Index offset = 0;
    for (Index axis = target_.rank() - 3; axis >= 0; --axis) {
      offset += (b % target_[axis]) * steps_[static_cast<size_t>(axis)];
      b /= target_[axis];
    }
    return offset;
  }
  Index rowStep() const { return steps_[steps_.size() - 2]; }
  Index columnStep() const { return steps_.back(); }

 private:
  std::vector<Index> steps_;
  Shape target_;
  bool fits_;
};

/// A mask over the scores of several matrices.
class LeadingMask {
 public:
  LeadingMask(const MaskInput& mask, const Shape& scores) : mask_(mask), place_(mask.shape, scores) {
    if (!place_.fits())
      throw Error(ErrorCode::kShapeMismatch, shapes("mask", mask.shape, "one that broadcasts to " + scores.toString()));
  }

  /// The mask of the b-th matrix of scores.
  Mask at(Index b) const {
    const Index offset = place_.matrix(b);
    const bool bytes = mask_.kind == Mask::Kind::kBoolean;
    const void* data = bytes ? static_cast<const void*>(static_cast<const uint8_t*>(mask_.data) + offset)
                             : static_cast<const void*>(static_cast<const float*>(mask_.data) + offset);
    return {mask_.kind, data, {0, 0, place_.rowStep(), place_.columnStep()}};
  }

 private:
  MaskInput mask_;
  Broadcast place_;
};

/// All axes but the last two.
Shape leadingAxes(const Shape& shape) {
  return Shape(std::vector<Index>(shape.extents().begin(), shape.extents().end() - 2));
}

/// The shape that both broadcast to, nothing where they do not.
std::optional<Shape> broadcastShape(const Shape& a, const Shape& b) {
  std::vector<Index> extents(static_cast<size_t>(std::max(a.rank(), b.rank())));
  for (size_t back = 1; back <= extents.size(); ++back) {
    const auto axis = -static_cast<Index>(back);
    const Index m = back <= a.extents().size() ? a[axis] : 1, n = back <= b.extents().size() ? b[axis] : 1;
    if (m != n && m != 1 && n != 1) return std::nullopt;
    extents[extents.size() - back] = m == 1 ? n : m;
  }
  return Shape(std::move(extents));
}

/// Leading axes, then `rows` and `columns`.
Shape matrices(const Shape& leading, Index rows, Index columns) {
  std::vector<Index> extents = leading.extents();
  extents.push_back(rows);
  extents.push_back(columns);
  return Shape(std::move(extents));
}

/// A mask [N, 1, L, S], as for several heads, beside scores [N, L, S].
MaskInput withoutHeads(MaskInput mask, const Shape& scores) {
  if (scores.rank() == 3 && mask.shape.rank() == 4 && mask.shape[1] == 1)
    mask.shape = {mask.shape[0], mask.shape[2], mask.shape[3]};
  return mask;
}

val attentionOf(const val& query, const val& key, const val& value, const val& options) {
  return guarded([&] {
    const Input q = readTensor(query), k = readTensor(key), v = readTensor(value);
    if (q.shape.rank() < 2) throw Error(ErrorCode::kShapeMismatch, shapes("query", q.shape, "[..., L, Dk]"));
    const Index queries = q.shape[-2], width = q.shape[-1];
    std::optional<Shape> leading = leadingAxes(q.shape);
    const auto join = [&](const char* argument, const Input& input, bool fits, const std::string& matrix) {
      fits = fits && input.shape.rank() >= 2;
      if (fits) leading = broadcastShape(*leading, leadingAxes(input.shape));
      if (!fits || !leading) {
        throw Error(ErrorCode::kShapeMismatch, shapes(argument, input.shape,
                                                      "[..., " + matrix + "] whose leading axes broadcast, beside " +
                                                          "query " + q.shape.toString()));
      }
    };
    join("key", k, k.shape.rank() > 0 && k.shape[-1] == width, "S, " + std::to_string(width));
    const Index keys = k.shape[-2];
    join("value", v, v.shape.rank() >= 2 && v.shape[-2] == keys, std::to_string(keys) + ", Dv");
    const Index value_width = v.shape[-1];
    const Shape output_shape = matrices(*leading, queries, value_width),
                weights_shape = matrices(*leading, queries, keys);
    const Broadcast q_place(q.shape, matrices(*leading, queries, width)),
        k_place(k.shape, matrices(*leading, keys, width)), v_place(v.shape, matrices(*leading, keys, value_width));
    const Index count = leading->size();

    AttentionOptions call;
    call.causal = readBool(options, "causal");
    call.window = readWindow(options);
    if (const val scale = options["scale"]; !scale.isNull()) call.scale = scale.as<float>();
    if (const val dropout = options["dropout"]; !dropout.isNull()) {
      call.dropout = readFloat(dropout, "p");
      call.dropout_key.seed = readSeed(dropout["seed"]);
    }
    std::optional<LeadingMask> mask;
    if (const auto input = readMask(options["mask"])) mask.emplace(withoutHeads(*input, weights_shape), weights_shape);

    float* output = arena().take<float>(output_shape.size());
    float* weights = readBool(options, "returnWeights") ? arena().take<float>(weights_shape.size()) : nullptr;
    const Sequences rows = Sequences::uniform(1, queries), columns = Sequences::uniform(1, keys);
    for (Index b = 0; b < count; ++b) {
      Mask placed;
      if (mask) {
        placed = mask->at(b);
        call.masks = {&placed, 1};
      }
      call.first_sequence = b;
      const auto matrix = [b](const Input& input, const Broadcast& place) {
        return view(static_cast<const float*>(input.data) + place.matrix(b), input.shape[-2], input.shape[-1]);
      };
      attention(matrix(q, q_place), matrix(k, k_place), matrix(v, v_place), 1, rows, columns, call,
                view(output + b * queries * value_width, queries, value_width),
                weights ? weights + b * queries * keys : nullptr, arena());
    }
    val result = val::object();
    result.set("output", writeTensor(output_shape, output));
    result.set("weights", weights ? writeTensor(weights_shape, weights) : val::null());
    return result;
  });
}

void requireAxes(const char* argument, const Shape& shape) {
  if (shape.rank() < 1) throw Error(ErrorCode::kShapeMismatch, shapes(argument, shape, "at least one axis"));
}

void requireVector(const char* argument, const std::optional<Input>& vector, Index width) {
  if (vector && vector->shape != Shape{width})
    throw Error(ErrorCode::kShapeMismatch, shapes(argument, vector->shape, Shape{width}.toString()));
}

val softmaxOf(const val& tensor) {
  return guarded([&] {
    const Input x = readTensor(tensor);
    requireAxes("x", x.shape);
    const Index width = x.shape[-1];
    for (Index row = 0; row < x.shape.rows(); ++row) softmaxRow(x.data + row * width, width);
    return writeTensor(x.shape, x.data);
  });
}

val linearOf(const val& tensor, const val& options) {
  return guarded([&] {
    const Input x = readTensor(tensor), weight = readTensor(options["weight"]);
    const auto bias = readOptionalTensor(options["bias"]);
    requireAxes("x", x.shape);
    if (weight.shape.rank() != 2 || weight.shape[1] != x.shape[-1]) {
      throw Error(ErrorCode::kShapeMismatch,
                  shapes("weight", weight.shape, "[out, " + std::to_string(x.shape[-1]) + "], as wide as x"));
    }
    const Index out = weight.shape[0];
    requireVector("bias", bias, out);
    std::vector<Index> extents = x.shape.extents();
    extents.back() = out;
    const Shape shape(std::move(extents));
    MatrixView output = arena().matrix(x.shape.rows(), out);
    linear(x.matrix(), weight.matrix(), bias ? bias->data : nullptr, readActivation(options), output, arena());
    return writeTensor(shape, output.data());
  });
}

val layerNormOf(const val& tensor, const val& options) {
  return guarded([&] {
    const Input x = readTensor(tensor);
    requireAxes("x", x.shape);
    const auto weight = readOptionalTensor(options["weight"]), bias = readOptionalTensor(options["bias"]);
    requireVector("weight", weight, x.shape[-1]);
    requireVector("bias", bias, x.shape[-1]);
    MatrixView rows = view(x.data, x.shape.rows(), x.shape[-1]);
    layerNorm(readOnly(rows), weight ? weight->data : nullptr, bias ? bias->data : nullptr, readFloat(options, "eps"),
              rows);
    return writeTensor(x.shape, x.data);
  });
}

val dropoutOf(const val& tensor, const val& options) {
  return guarded([&] {
    const Input x = readTensor(tensor);
    MatrixView all = view(x.data, 1, x.shape.size());
    dropout(readOnly(all), readFloat(options, "p"), readScaling(options), {.seed = readSeed(options["seed"])}, all);
    return writeTensor(x.shape, x.data);
  });
}

val positionalEncodingOf(double length, double dim, double base) {
  return guarded([&] {
    const Shape shape{static_cast<Index>(length), static_cast<Index>(dim)};
    (void)requireRoom("positionalEncoding", shape);
    MatrixView output = arena().matrix(shape[0], shape[1]);
    positionalEncoding(base, output);
    return writeTensor(shape, output.data());
  });
}

val rotaryOf(const val& tensor, const val& options) {
  return guarded([&] {
    const Input x = readTensor(tensor);
    if (x.shape.rank() < 2) throw Error(ErrorCode::kShapeMismatch, shapes("x", x.shape, "[..., L, D]"));
    const Index length = x.shape[-2], width = x.shape[-1], first = readIndex(options, "firstPosition");
    RotaryOption rotary(options, width);
    const Rotary* tables = rotary.tables(length, first);
    const Index count = length * width == 0 ? 0 : x.shape.size() / (length * width);
    for (Index b = 0; b < count; ++b) tables->rotate(view(x.data + b * length * width, length, width), 1, first);
    return writeTensor(x.shape, x.data);
  });
}

/// [H, L, S] from the bias by distance that `make` gives; its table is never made for a result that is empty or cannot
/// be addressed.
template <class Make>
val spread(Index heads, Index queries, Index keys, Make make) {
  const Shape shape{heads, queries, keys};
  if (shape.size() == 0) return writeTensor(shape, nullptr);
  const DistanceBias bias = make(std::max(queries, keys));
  float* out = arena().take<float>(shape.size());
  float* at = out;
  for (Index h = 0; h < heads; ++h) {
    const float* row = bias.values.data() + h * (2 * bias.max_distance + 1) + bias.max_distance;
    for (Index i = 0; i < queries; ++i) {
      for (Index j = 0; j < keys; ++j) *at++ = row[j - i];
    }
  }
  return writeTensor(shape, out);
}

val alibiOf(double heads, double queries, double keys) {
  return guarded([&] {
    const auto h = static_cast<Index>(heads), l = static_cast<Index>(queries), s = static_cast<Index>(keys);
    return spread(h, l, s, [&](Index longest) { return alibiBias(h, longest); });
  });
}

val relativeBiasOf(const val& table, const val& options) {
  return guarded([&] {
    const Input t = readTensor(table);
    if (t.shape.rank() != 2) throw Error(ErrorCode::kShapeMismatch, shapes("table", t.shape, "[buckets, H]"));
    const Index queries = readIndex(options, "queries"), keys = readIndex(options, "keys");
    return spread(t.shape[1], queries, keys, [&](Index longest) {
      return relativeBias(t.matrix(), longest, readIndex(options, "maxDistance"), readBool(options, "bidirectional"));
    });
  });
}

std::string compiler() {
  return "emscripten " + std::to_string(__EMSCRIPTEN_major__) + "." + std::to_string(__EMSCRIPTEN_minor__) + "." +
         std::to_string(__EMSCRIPTEN_tiny__) + ", clang " + __clang_version__;
}

double memoryBytes() { return static_cast<double>(__builtin_wasm_memory_size(0)) * 65536; }

}  // namespace

EMSCRIPTEN_BINDINGS(heed_functions) {
  emscripten::function("attention", &attentionOf);
  emscripten::function("softmax", &softmaxOf);
  emscripten::function("linear", &linearOf);
  emscripten::function("layerNorm", &layerNormOf);
  emscripten::function("dropout", &dropoutOf);
  emscripten::function("positionalEncoding", &positionalEncodingOf);
  emscripten::function("rotary", &rotaryOf);
  emscripten::function("alibi", &alibiOf);
  emscripten::function("relativeBias", &relativeBiasOf);
  emscripten::function("compiler", &compiler);
  emscripten::function("memoryBytes", &memoryBytes);
}

}  // namespace heed::bindings
