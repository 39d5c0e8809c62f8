/// Attention whose scores and weights are separate operations, because they are read or edited:
///
///   S = Q K^T scale + B        dQ = scale dS K, dK = scale dS^T Q, dB = dS, and as in attention_backward.cpp for the
///                              terms of relative positions
///   P = softmax(S + M)         dS = dM = P * (dP - rowsum(P * dP))
///   Y = m (Z * P) V            dP = m Z * (dY V^T), dV = m (Z * P)^T dY, dm = sum(Z * P * (dY V^T))
///
/// S and P may be edited in between. Rows that no edit changes have the same bits as in the fused operation.
#include <algorithm>

#include "ops/attention_backward.h"
#include "ops/dropout_draws.h"
#include "train/ops/sums.h"

namespace heed::train {
namespace {

float dot(Index count, const float* a, const float* b) {
  float sum = 0;
  for (Index i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// The entries of head h, of width `width`, in row `row`.
template <class Pointer>
Pointer headRow(Pointer all, Index columns, Index row, Index h, Index width) {
  return all + row * columns + h * width;
}

/// Calls f(n, h, i, offset) for each row of scores: query i of head h of sequence n, whose scores begin at `offset`.
template <class F>
void forEachScoreRow(const AttentionCall& call, const F& f) {
  Index offset = 0;
  for (Index n = 0; n < call.queries.count(); ++n) {
    for (Index h = 0; h < call.num_heads; ++h) {
      for (Index i = 0; i < call.queries.length(n); ++i, offset += call.keys.length(n)) f(n, h, i, offset);
    }
  }
}

/// Sums for the gradient of a variable to which the scores add; they add to nothing if it needs no gradient.
ScatteredSums sumsFor(const Variable& variable, const AttentionCall& call, Backward& pass) {
  const double terms = call.scoreCount() * static_cast<double>(std::max(call.keyWidth(), call.valueWidth()));
  return {pass.gradient(variable.node()), terms};
}

void scoresBackward(const AttentionCall& call, const Matrix& ds, Backward& pass) {
  const AttentionVariables& v = call.variables;
  const Index width = call.keyWidth(), query_columns = v.query.cols(), key_columns = v.key.cols();
  const float scale = call.options.scaleFor(width);
  const float *queries = v.query.shared()->data(), *keys = v.key.shared()->data();
  ScatteredSums dq = sumsFor(v.query, call, pass), dk = sumsFor(v.key, call, pass), bias = sumsFor(v.bias, call, pass),
                position_key = sumsFor(v.position_key, call, pass),
                position_query = sumsFor(v.position_query, call, pass);
  const DisentangledPositions* positions = call.options.positions;
  forEachScoreRow(call, [&](Index n, Index h, Index i, Index offset) {
    const Index key_head = h * call.key_heads / call.num_heads, query_row = call.queries.begin(n) + i;
    const float* query = headRow(queries, query_columns, query_row, h, width);
    const Index query_at = query_row * query_columns + h * width;
    for (Index j = 0; j < call.keys.length(n); ++j) {
      const float gradient = ds.data()[offset + j];
      if (gradient == 0) continue;
      const Index key_row = call.keys.begin(n) + j;
      const float* key = headRow(keys, key_columns, key_row, key_head, width);
      const Index key_at = key_row * key_columns + key_head * width;
      dq.add(query_at, width, key, scale * gradient);
      dk.add(key_at, width, query, scale * gradient);
      if (bias) {
        const Index most = call.options.bias.cols() / 2;
        bias.add(h * (2 * most + 1) + most + std::clamp(j - i, -most, most), gradient);
      }
      if (!positions) continue;
      const Index most = positions->max_distance, columns = (positions->key ? positions->key : positions->query).cols();
      const Index row = positions->rows[most + std::clamp(i - j, -most, most)] - positions->first;
      const Index position_at = row * columns + h * width;
      if (positions->key) dq.add(query_at, width, positions->key.data() + position_at, scale * gradient);
      if (positions->query) dk.add(key_at, width, positions->query.data() + position_at, scale * gradient);
      position_key.add(position_at, width, query, scale * gradient);
      position_query.add(position_at, width, key, scale * gradient);
    }
  });
  for (ScatteredSums* sums : {&dq, &dk, &bias, &position_key, &position_query}) sums->finish();
}

/// Replaces dP by dS, and adds dS to the gradients of masks.
void softmaxBackward(const AttentionCall& call, const Matrix& weights, Matrix& dp, Backward& pass) {
  std::vector<ScatteredSums> gradients;
  gradients.reserve(call.variables.masks.size());
  for (const Variable& mask : call.variables.masks) gradients.push_back(sumsFor(mask, call, pass));
  const std::vector<Mask> masks = broadcastMasks(call.options.masks, call.queries, call.num_heads, call.keys);
  forEachScoreRow(call, [&](Index n, Index h, Index i, Index offset) {
    const Index num_keys = call.keys.length(n);
    const float* p = weights.data() + offset;
    float* d = dp.data() + offset;
    double total = 0;
    for (Index j = 0; j < num_keys; ++j) total += p[j] == 0 ? 0 : static_cast<double>(p[j] * d[j]);
    const auto sum = static_cast<float>(total);
    for (Index j = 0; j < num_keys; ++j) {
      d[j] = p[j] == 0 ? 0 : p[j] * (d[j] - sum);
      for (size_t m = 0; m < masks.size(); ++m) {
        const std::array<Index, 4>& s = masks[m].strides;
        if (gradients[m]) gradients[m].add(n * s[0] + h * s[1] + i * s[2] + j * s[3], d[j]);
      }
    }
  });
  for (ScatteredSums& sums : gradients) sums.finish();
}

void outputBackward(const AttentionCall& call, const Variable& weights, const Matrix& dy, Backward& pass) {
  const AttentionVariables& v = call.variables;
  const Index width = call.valueWidth(), columns = v.value.cols();
  const float* values = v.value.shared()->data();
  float* dp = pass.gradient(weights.node()).data();
  ScatteredSums dv = sumsFor(v.value, call, pass), dm = sumsFor(v.head_mask, call, pass);
  const float rate = call.options.dropout;
  const float keep_factor = rate > 0 ? keepFactor(rate, DropoutScaling::kInverted) : 1;
  forEachScoreRow(call, [&](Index n, Index h, Index i, Index offset) {
    const Index key_head = h * call.key_heads / call.num_heads;
    const float factor = call.options.headFactor(n, h, call.num_heads) * keep_factor;
    const float* gradient = headRow(dy.data(), dy.cols(), call.queries.begin(n) + i, h, width);
    DropoutDraws draws(call.options.dropout_key, rate, call.random.first_sequence + n, h, i);
    for (Index j = 0; j < call.keys.length(n); ++j) {
      if (rate > 0 && draws.drops(j)) continue;
      const Index row = call.keys.begin(n) + j;
      const float weight = weights.shared()->data()[offset + j];
      const float product = dot(width, gradient, headRow(values, columns, row, key_head, width));
      if (dp) dp[offset + j] += factor * product;
      if (weight == 0) continue;
      dv.add(row * columns + key_head * width, width, gradient, factor * weight);
      if (dm) dm.add(call.options.headMaskIndex(n, h, call.num_heads), keep_factor * weight * product);
    }
  });
  dv.finish();
  dm.finish();
}

}  // namespace

Variable recordEditedAttention(Graph& graph, const std::shared_ptr<const AttentionCall>& call, RecordedSites& sites,
                               float* returned) {
  const AttentionVariables& v = call->variables;
  const AttentionInput input = call->input();
  const Index heads = call->num_heads, size = attentionWeightsSize(heads, call->queries, call->keys);
  Context& context = graph.context();
  Matrix output(v.query.rows(), call->valueWidth() * heads), scores(1, size), weights(1, size);
  attention(input, heads, call->options, {output.view(), nullptr, scores.data()}, context);
  const Variable recorded =
      graph.record(std::move(scores), {v.query, v.key, v.bias, v.position_key, v.position_query}, false,
                   [call](Matrix& ds, Backward& pass) { scoresBackward(*call, ds, pass); });
  const Variable edited = sites.visitMatrices(graph, Site::kScores, recorded, heads);
  attention(input, heads, call->options, {output.view(), weights.data()}, context, {.scores = edited.shared()->data()});

  std::vector<Variable> inputs = {edited};
  inputs.insert(inputs.end(), v.masks.begin(), v.masks.end());
  const Variable softmaxed = graph.record(std::move(weights), inputs, false, {});
  if (softmaxed.node()) {
    softmaxed.node()->backward = [call, p = softmaxed.shared(), node = edited.node()](Matrix& dp, Backward& pass) {
      softmaxBackward(*call, *p, dp, pass);
      pass.give(node, std::move(dp));
    };
  }
  const Variable used = sites.visitMatrices(graph, Site::kWeights, softmaxed, heads);
  if (sites.edits(Site::kWeights)) {
    attention(input, heads, call->options, {output.view()}, context,
              {.weights = used.shared()->data(), .before = softmaxed.shared()->data()});
  }
  if (returned) std::copy_n(used.shared()->data(), size, returned);
  return graph.record(std::move(output), {used, v.value, v.head_mask}, false,
                      [call, used](Matrix& dy, Backward& pass) { outputBackward(*call, used, dy, pass); });
}

}  // namespace heed::train
