/// The gradients of Y = m (Z * P) V with P = softmax(S), S = Q K^T scale + M, dropout factors Z and head mask m, from
/// dY:
///
///   G = dY V^T,  E = rowsum(P * Z * G),  dS = m P * (Z * G - E)
///   dQ = scale dS K,  dK = scale dS^T Q,  dV = m (Z * P)^T dY,  dM = dS,  dm = sum(E)
///
/// (Dao et al. 2022, arXiv:2205.14135, appendix B.4; m E is their D = rowsum(dY * Y).) Where a key is forbidden, P and
/// dS are exactly 0, regardless of the key and the value.
///
/// The terms of relative positions, S += scale (Q_i PK_r + K_j PQ_r) with r the row for i - j, select one column per
/// key or query from the products Q PK^T and K PQ^T. Their gradients are products with dS summed by r:
///
///   A_ir = sum over j with row r of dS_ij,    dQ += scale A PK,  dPK = scale A^T Q
///   B_jr = sum over i with row r of dS_ij,    dK += scale B PQ,  dPQ = scale B^T K
///
/// The first three products and the softmax run by row blocks of queries, as in the forward pass, and skip the same
/// keys. P and dS of a few row blocks are stored for the two products with transposed operands.
#include "ops/attention_backward.h"

#include <algorithm>
#include <array>

#include "core/check.h"
#include "gemm/attention_products.h"
#include "gemm/gradient_products.h"
#include "gemm/simd.h"
#include "ops/dropout_draws.h"
#include "ops/key_selection.h"
#include "ops/mask.h"
#include "ops/position_terms.h"
#include "ops/softmax.h"
#include "train/ops/sums.h"

namespace heed::train {
namespace {

/// Number of row blocks of queries whose P and dS are stored at a time. More blocks mean fewer passes over dK and dV.
constexpr Index kRowBlocks = 8;

/// K for the product dS K, with zeros in place of infinite and NaN entries. If such a key is forbidden, dS is 0, and 0
/// times NaN would be NaN. If it is allowed, dS is NaN anyway.
Panels packFinite(ConstMatrixView key, const RowList& keys, Arena& arena) {
  const Panels panels = packValues(key, keys, arena);
  if (panels.finite) return panels;
  MatrixView finite = arena.matrix(key.rows(), key.cols());
  finite = key.array().isFinite().select(key.array(), 0.0f);
  return packValues(readOnly(finite), keys, arena);
}

/// For one query: takes e^(s - max) in `exponentials`, their `sum`, and G in `products`. Replaces `exponentials` by Z P
/// and `products` by dS / m, and returns E. `keep_factors` is Z, or null if all of Z is 1; `count` is a multiple of 4.
float scoreGradient(float* exponentials, float sum, float* products, const float* keep_factors, Index count) {
  const v128_t zero = simd::splat(0), inverse_sum = simd::splat(sum == 0 ? 0 : 1 / sum);
  double total = 0;
  for (Index first = 0; first < count; first += 4 * kSumBlock) {
    v128_t sums = zero;
    for (Index j = first; j < std::min(first + 4 * kSumBlock, count); j += 4) {
      const v128_t exponential = simd::load(exponentials + j), visible = wasm_f32x4_ne(exponential, zero);
      const v128_t weight = wasm_v128_and(wasm_f32x4_mul(exponential, inverse_sum), visible);
      v128_t product = simd::load(products + j);
      if (keep_factors) product = wasm_f32x4_mul(product, simd::load(keep_factors + j));
      product = wasm_v128_and(product, visible);
      sums = simd::multiplyAdd(weight, product, sums);
      simd::store(exponentials + j, weight);
      simd::store(products + j, product);
    }
    total += static_cast<double>(simd::horizontalSum(sums));
  }
  const auto e = static_cast<float>(total);
  const v128_t es = simd::splat(e);
  for (Index j = 0; j < count; j += 4) {
    const v128_t weight = simd::load(exponentials + j), visible = wasm_f32x4_ne(weight, zero);
    const v128_t gradient = wasm_f32x4_mul(weight, wasm_f32x4_sub(simd::load(products + j), es));
    simd::store(products + j, wasm_v128_and(gradient, visible));
    if (keep_factors) simd::store(exponentials + j, wasm_f32x4_mul(weight, simd::load(keep_factors + j)));
  }
  return e;
}

/// The gradients of a call. query, key and value are overwritten. The others are sums of many scores, which are added
/// to the gradients in `pass`; those that are not needed add to nothing.
struct AttentionGradients {
  MatrixView query, key, value;
  float *position_key, *position_query;  // null: not needed
  ScatteredSums head_mask, position_bias;
  std::vector<ScatteredSums> masks;

  AttentionGradients(const AttentionCall& call, Matrix& dq, Matrix& dk, Matrix& dv, Backward& pass)
      : query(dq.view()),
        key(dk.view()),
        value(dv.view()),
        position_key(pass.gradient(call.variables.position_key.node()).data()),
        position_query(pass.gradient(call.variables.position_query.node()).data()),
        head_mask(pass.gradient(call.variables.head_mask.node()), call.scoreCount()),
        position_bias(pass.gradient(call.variables.bias.node()), call.scoreCount()) {
    for (const Variable& mask : call.variables.masks) masks.emplace_back(pass.gradient(mask.node()), call.scoreCount());
  }
  /// Whether several heads add to the same gradient.
  bool sharedByHeads() const {
    return std::ranges::any_of(masks, [](const ScatteredSums& mask) { return static_cast<bool>(mask); });
  }
  void finish() {
    head_mask.finish();
    position_bias.finish();
    for (ScatteredSums& mask : masks) mask.finish();
  }
};

/// The backward pass of one head of one sequence.
class HeadBackward {
 public:
  HeadBackward(const AttentionCall& call, std::span<const Mask> masks, ConstMatrixView gradient,
               AttentionGradients& result, Index n, Index h, Context& context)
      : call_(call),
        masks_(masks),
        result_(result),
        n_(n),
        h_(h),
        key_head_(h * call.key_heads / call.num_heads),
        context_(context),
        scale_(call.options.scaleFor(call.keyWidth())),
        head_mask_(call.options.headFactor(n, h, call.num_heads)),
        query_(queries(call.variables.query.value(), call.keyWidth())),
        gradient_(queries(gradient, call.valueWidth())),
        selection_(n, h, call.keys.length(n), call.options, masks, context.arena),
        positions_(h, keys(call.variables.key.value(), call.keyWidth()), query_.rows(), call.options, context.arena) {
    const RowList& selected = selection_.selected();
    const ConstMatrixView key = keys(call.variables.key.value(), call.keyWidth());
    key_columns_ = packKeys(key, selected, arena());
    value_columns_ = packKeys(keys(call.variables.value.value(), call.valueWidth()), selected, arena());
    key_rows_ = packFinite(key, selected, arena());
    query_rows_ = packPanels(query_, arena());
    gradient_rows_ = packPanels(gradient_, arena());
    if (!positions_) return;
    query_sums_ = zeros(query_.rows() * positions_.count());
    key_sums_ = zeros(key.rows() * positions_.count());
  }

  void run() {
    const Index blocks = queryBlocks(query_.rows());
    const RowList& selected = selection_.selected();
    MatrixView dk = arena().matrix(selected.count, call_.keyWidth()),
               dv = arena().matrix(selected.count, call_.valueWidth());
    dk.setZero();
    dv.setZero();
    for (Index b = 0; b < blocks; b += kRowBlocks) runBlocks(b, std::min(b + kRowBlocks, blocks), blocks, dk, dv);
    MatrixView key_gradient = keys(result_.key, call_.keyWidth()),
               value_gradient = keys(result_.value, call_.valueWidth());
    for (Index k = 0; k < selected.count; ++k) {
      key_gradient.row(selected[k]) += head_mask_ * scale_ * dk.row(k);
      value_gradient.row(selected[k]) += head_mask_ * dv.row(k);
    }
    if (positions_) addPositionGradients();
    if (result_.head_mask)
      result_.head_mask.add(call_.options.headMaskIndex(n_, h_, call_.num_heads),
                            static_cast<float>(head_mask_gradient_));
  }

 private:
  Arena& arena() const { return context_.arena; }
  double* zeros(Index count) const {
    auto* all = arena().take<double>(count);
    std::fill_n(all, count, 0.0);
    return all;
  }
  template <class View>
  View queries(View all, Index width) const {
    return headRows(all, call_.queries.begin(n_), call_.queries.end(n_), h_, width);
  }
  template <class View>
  View keys(View all, Index width) const {
    return headRows(all, call_.keys.begin(n_), call_.keys.end(n_), key_head_, width);
  }

  /// Processes row blocks [begin, end) of all `blocks`. Adds to dK / (m scale) and dV / m of the selected keys.
  void runBlocks(Index begin, Index end, Index blocks, MatrixView dk, MatrixView dv) {
    const Arena::Scope scope(arena());
    const Index first = evenPart(query_.rows(), blocks, begin), rows = evenPart(query_.rows(), blocks, end) - first;
    const Index num_keys = selection_.selected().count, panels = (num_keys + 7) / 8;
    const MatrixView weights = arena().matrix(rows, num_keys), score_gradients = arena().matrix(rows, num_keys);
    auto* visible_panels = arena().take<bool>(panels);
    std::fill_n(visible_panels, panels, false);
    for (Index b = begin, r = 0, count; b < end; ++b, r += count) {
      count = evenPart(query_.rows(), blocks, b + 1) - first - r;
      runBlock(first + r, headRows(weights, r, r + count, 0, num_keys),
               headRows(score_gradients, r, r + count, 0, num_keys), visible_panels);
    }
    // Skips panels of keys that no query of these blocks may attend to.
    for (Index panel = 0, next; panel < panels; panel = next) {
      for (next = panel + 1; next < panels && visible_panels[next] == visible_panels[panel];) ++next;
      if (!visible_panels[panel]) continue;
      const Range range{8 * panel, std::min(8 * next, num_keys)};
      const auto part = [&](const MatrixView& m) {
        return view(static_cast<const float*>(m.data()) + range.begin, rows, range.count(), num_keys);
      };
      const auto rows_of = [&](MatrixView m) { return view(m.row(range.begin).data(), range.count(), m.cols()); };
      addTransposedProduct(part(weights), gradient_rows_, first, rows_of(dv), context_);
      addTransposedProduct(part(score_gradients), query_rows_, first, rows_of(dk), context_);
    }
  }

  /// Processes the row block whose first query is `first`: writes its dQ, and its Z P and dS / m for all selected keys.
  void runBlock(Index first, MatrixView weights, MatrixView score_gradients, bool* visible_panels) {
    const Arena::Scope scope(arena());
    const Index rows = weights.rows();
    const VisibleKeys visible(selection_, first, rows, arena());
    const Index count = visible.count(), width = (count + 7) / 8 * 8;
    const auto block = [&](auto all) { return headRows(all, first, first + rows, 0, all.cols()); };
    const Range key_features{0, call_.keyWidth()};
    auto* packed = arena().take<uint32_t>(rows * std::max({call_.keyWidth(), call_.valueWidth(), width}));
    std::array<float, kMaxQueries> factors;

    // S without M, and G.
    MatrixView scores = arena().matrix(rows, width), products = arena().matrix(rows, width);
    multiplyColumns(block(query_), key_columns_, visible.ranges(), scale_, scores, packed);
    positions_.add(block(query_), first, scale_, visible, scores, packed, arena());
    multiplyColumns(block(gradient_), value_columns_, visible.ranges(), 1, products, packed);
    float* keep_factors = call_.options.dropout > 0 ? arena().take(width) : nullptr;
    for (Index r = 0; r < rows; ++r) {
      float *score = scores.row(r).data(), *product = products.row(r).data();
      visible.addBiasAndMasks(r, score);
      std::fill(score + count, score + width, kForbidden);
      if (keep_factors) drawDropout(visible, first + r, keep_factors, width);
      const float sum = exponentials(score, width, visible.ranges());
      head_mask_gradient_ += static_cast<double>(scoreGradient(score, sum, product, keep_factors, width));
      addMaskGradients(visible, first + r, product);
      if (positions_) addPositionSums(visible, first + r, product);
      spread(visible, score, weights.row(r).data());
      spread(visible, product, score_gradients.row(r).data());
    }
    for (const Range& range : visible.ranges())
      std::fill(visible_panels + range.begin / 8, visible_panels + (range.end + 7) / 8, true);

    // dQ = m scale (dS / m) K.
    factors.fill(head_mask_ * scale_);
    multiplySelected(readOnly(view(products.data(), rows, count, width)), key_rows_, visible.ranges(),
                     {&key_features, 1}, factors.data(), block(queries(result_.query, call_.keyWidth())), packed);
  }

  /// Writes Z for query i, with the draws of the forward pass, and zeros after the last key.
  void drawDropout(const VisibleKeys& visible, Index i, float* keep_factors, Index width) const {
    const float factor = keepFactor(call_.options.dropout, DropoutScaling::kInverted);
    DropoutDraws draws(call_.options.dropout_key, call_.options.dropout, call_.random.first_sequence + n_, h_, i);
    visible.forEach([&](Index key, Index column) { keep_factors[column] = draws.drops(key) ? 0 : factor; });
    std::fill(keep_factors + visible.count(), keep_factors + width, 0.0f);
  }

  /// Adds dM = dS of query i to the gradients of additive masks and of the position bias. Entries that broadcast to
  /// several scores get the sum.
  void addMaskGradients(const VisibleKeys& visible, Index i, const float* score_gradient) const {
    for (size_t m = 0; m < masks_.size(); ++m) {
      ScatteredSums& mask = result_.masks[m];
      if (!mask) continue;
      const std::array<Index, 4>& strides = masks_[m].strides;
      const Index row = n_ * strides[0] + h_ * strides[1] + i * strides[2];
      visible.forEach(
          [&](Index key, Index column) { mask.add(row + key * strides[3], head_mask_ * score_gradient[column]); });
    }
    if (result_.position_bias) {
      const Index most = call_.options.bias.cols() / 2, row = h_ * (2 * most + 1) + most;
      visible.forEach([&](Index key, Index column) {
        result_.position_bias.add(row + std::clamp(key - i, -most, most), head_mask_ * score_gradient[column]);
      });
    }
  }

  /// Adds m scale dS of query i to A and B.
  void addPositionSums(const VisibleKeys& visible, Index i, const float* score_gradient) {
    visible.forEach([&](Index key, Index column) {
      const Index at = positions_.index(i - key);
      const auto gradient = static_cast<double>(head_mask_ * scale_ * score_gradient[column]);
      query_sums_[i * positions_.count() + at] += gradient;
      key_sums_[key * positions_.count() + at] += gradient;
    });
  }

  void addPositionGradients() {
    const Index width = call_.keyWidth();
    const auto rows = [&](auto all) {
      return headRows(all, positions_.first(), positions_.first() + positions_.count(), h_, width);
    };
    const auto add = [&](const double* exact, const Value& position, MatrixView rows_gradient, const Panels& own,
                         float* position_gradient) {
      const Arena::Scope scope(arena());
      MatrixView sums = arena().matrix(rows_gradient.rows(), positions_.count());
      std::transform(exact, exact + sums.size(), sums.data(), [](double x) { return static_cast<float>(x); });
      multiplyPanels(readOnly(sums), packPanels(rows(position.values()), arena()), rows_gradient, true, context_);
      if (position_gradient) {
        const MatrixView all = view(position_gradient, position.rows(), position.cols());
        addTransposedProduct(readOnly(sums), own, 0, rows(all), context_);
      }
    };
    const DisentangledPositions& positions = call_.positions;
    if (positions.key)
      add(query_sums_, positions.key, queries(result_.query, width), query_rows_, result_.position_key);
    if (!positions.query) return;
    const ConstMatrixView key = keys(call_.variables.key.value(), width);
    const Panels key_rows = packFinite(key, {nullptr, key.rows()}, arena());
    add(key_sums_, positions.query, keys(result_.key, width), key_rows, result_.position_query);
  }

  /// Writes the columns of visible keys to their positions among all selected keys, and zeros to the others.
  void spread(const VisibleKeys& visible, const float* from, float* to) const {
    Index next = 0;
    for (const Range& range : visible.ranges()) {
      std::fill(to + next, to + range.begin, 0.0f);
      std::copy_n(from, range.count(), to + range.begin);
      from += range.count();
      next = range.end;
    }
    std::fill(to + next, to + selection_.selected().count, 0.0f);
  }

  const AttentionCall& call_;
  const std::span<const Mask> masks_;
  AttentionGradients& result_;
  const Index n_, h_, key_head_;
  Context& context_;
  const float scale_, head_mask_;
  const ConstMatrixView query_, gradient_;
  const KeySelection selection_;
  const PositionTerms positions_;
  Panels key_columns_, value_columns_;                  // K^T and V^T of the selected keys
  Panels key_rows_, query_rows_, gradient_rows_;        // K of the selected keys, Q and dY
  double *query_sums_ = nullptr, *key_sums_ = nullptr;  // A (L, C) and B (S, C), times m scale
  double head_mask_gradient_ = 0;
};

/// Computes the gradients of a call from `gradient`, that of its output (sum L_n, H Dv). Keys and values that several
/// query heads share get the sum of these heads' gradients.
void attentionBackward(const AttentionCall& call, ConstMatrixView gradient, AttentionGradients& result,
                       Context& context) {
  result.key.setZero();
  result.value.setZero();
  const Index group = call.num_heads / call.key_heads;
  const std::vector<Mask> masks = broadcastMasks(call.options.masks, call.queries, call.num_heads, call.keys);
  for (Index n = 0; n < call.queries.count(); ++n) {
    if (call.queries.length(n) == 0) continue;
    // The heads that share keys, one after the other: tasks must write to disjoint memory.
    const auto heads = [&](Index key_head, Context& task) {
      for (Index h = key_head * group; h < (key_head + 1) * group; ++h) {
        const Arena::Scope scope(task.arena);
        HeadBackward(call, masks, gradient, result, n, h, task).run();
      }
    };
    if (result.sharedByHeads()) {
      for (Index h = 0; h < call.key_heads; ++h) heads(h, context);
    } else {
      context.executor.run(call.key_heads, context, heads);
    }
  }
  result.finish();
}

}  // namespace

double AttentionCall::scoreCount() const {
  double count = 0;
  for (Index n = 0; n < queries.count(); ++n)
    count += static_cast<double>(queries.length(n)) * static_cast<double>(keys.length(n));
  return count * static_cast<double>(num_heads);
}

AttentionCall::AttentionCall(AttentionVariables&& given, const Sequences& query_rows, const Sequences& key_rows,
                             Index heads, const AttentionOptions& settings, const RandomState& state)
    : variables(std::move(given)),
      queries(query_rows),
      keys(key_rows),
      num_heads(heads),
      key_heads(settings.keyHeads(heads)),
      random(state),
      mask_tensors(settings.masks.begin(), settings.masks.end()),
      options(settings) {
  options.masks = mask_tensors;
  if (options.positions) {
    positions = *options.positions;
    options.positions = &positions;
  }
}

Variable recordAttention(Graph& graph, AttentionVariables variables, const Sequences& queries, const Sequences& keys,
                         Index num_heads, const AttentionOptions& options, float* weights, RecordedSites* sites) {
  requireRange("queryOffset", options.query_offset, 0, 0);  // decoding with a cache is not recorded
  auto call =
      std::make_shared<AttentionCall>(std::move(variables), queries, keys, num_heads, options, graph.context().random);
  if (sites) return recordEditedAttention(graph, call, *sites, weights);
  const AttentionVariables& v = call->variables;
  Matrix output(v.query.rows(), call->valueWidth() * num_heads);
  heed::attention(call->input(), num_heads, call->options, {output.view(), weights}, graph.context());
  std::vector<Variable> inputs = {v.query, v.key, v.value, v.head_mask, v.bias, v.position_key, v.position_query};
  inputs.insert(inputs.end(), v.masks.begin(), v.masks.end());
  return graph.record(std::move(output), inputs, false, [call](Matrix& gradient, Backward& pass) {
    const AttentionVariables& of = call->variables;
    Matrix dq(of.query.rows(), of.query.cols()), dk(of.key.rows(), of.key.cols()), dv(of.value.rows(), of.value.cols());
    AttentionGradients result(*call, dq, dk, dv, pass);
    attentionBackward(*call, gradient.values(), result, pass.context());
    pass.give(of.query.node(), std::move(dq));
    pass.give(of.key.node(), std::move(dk));
    pass.give(of.value.node(), std::move(dv));
  });
}

}  // namespace heed::train
