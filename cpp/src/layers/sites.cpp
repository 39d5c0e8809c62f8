#include "heed/sites.h"

#include <cmath>
#include <cstring>

#include "core/check.h"
#include "ops/mask.h"
#include "ops/softmax.h"

namespace heed {
namespace {

/// The index of entry i of an axis in a selection, or -1.
Index selectedIndex(const std::vector<Index>& selected, Index i) {
  if (selected.empty()) return i;
  return i < static_cast<Index>(selected.size()) ? selected[static_cast<size_t>(i)] : -1;
}

bool sameBits(const float* a, const float* b, Index count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

/// Calls f(n, h, i, offset) for each row of scores: query i of head h of sequence n, at `offset` of all scores.
template <class F>
void forEachScoreRow(const AttentionInput& input, Index num_heads, const F& f) {
  Index offset = 0;
  for (Index n = 0; n < input.queries.count(); ++n) {
    for (Index h = 0; h < num_heads; ++h) {
      for (Index i = 0; i < input.queries.length(n); ++i, offset += input.keys.length(n)) f(n, h, i, offset);
    }
  }
}

}  // namespace

/// The values of a site as rows (n, h, l) of features or keys.
class Sites::Values {
 public:
  Values(const Sequences& sequences, MatrixView rows, Index heads)
      : rows_of(sequences),
        heads(heads),
        data_(rows.data()),
        row_stride_(rows.outerStride()),
        width_(rows.cols() / heads) {}
  Values(const Sequences& queries, const Sequences& keys, float* values, Index heads)
      : rows_of(queries), heads(heads), data_(values), keys_(&keys) {
    for (Index n = 0; n < queries.count(); ++n) {
      starts_.push_back(values);
      values += heads * queries.length(n) * keys.length(n);
    }
  }

  float* row(Index n, Index h, Index l) const {
    if (keys_) return starts_[static_cast<size_t>(n)] + (h * rows_of.length(n) + l) * keys_->length(n);
    return data_ + (rows_of.begin(n) + l) * row_stride_ + h * width_;
  }
  /// The number of features, or of keys of sequence n.
  Index width(Index n) const { return keys_ ? keys_->length(n) : width_; }
  /// Null where the last axis has features.
  const Sequences* keys() const { return keys_; }
  ConstMatrixView all() const {
    if (keys_) {
      Index size = 0;
      for (Index n = 0; n < rows_of.count(); ++n) size += heads * rows_of.length(n) * keys_->length(n);
      return view(static_cast<const float*>(data_), 1, size);
    }
    return view(static_cast<const float*>(data_), rows_of.totalRows(), heads * width_, row_stride_);
  }
  /// Calls f(n, h, l).
  template <class F>
  void forEachRow(const F& f) const {
    for (Index n = 0; n < rows_of.count(); ++n) {
      for (Index h = 0; h < heads; ++h) {
        for (Index l = 0; l < rows_of.length(n); ++l) f(n, h, l);
      }
    }
  }

  const Sequences& rows_of;
  const Index heads;

 private:
  float* data_;
  Index row_stride_ = 0, width_ = 0;
  const Sequences* keys_ = nullptr;
  std::vector<float*> starts_;
};

bool Sites::reads(Site site) const {
  for (const Read& each : reads_) {
    if (each.layer == layer_ && each.site == site) return true;
  }
  return false;
}

bool Sites::edits(Site site) const {
  for (const SiteEdit& each : edits_) {
    if (each.layer == layer_ && each.site == site) return true;
  }
  return false;
}

void Sites::at(Site site, MatrixView rows, Index heads) {
  visit(site, Values(site == Site::kKeys || site == Site::kValues ? keys_ : queries_, rows, heads));
}

void Sites::at(Site site, float* values, Index heads) { visit(site, Values(queries_, keys_, values, heads)); }

void Sites::visit(Site site, const Values& values) {
  for (size_t i = 0; i < edits_.size(); ++i) {
    if (edits_[i].layer == layer_ && edits_[i].site == site) apply(i, values);
  }
  if (reads(site)) read(layer_, site, values.all());
}

Index Sites::column(const Sequences& sequences, Index n, Index row) const {
  return columns_.empty() ? row : columns_[static_cast<size_t>(sequences.begin(n) + row)];
}

Index Sites::entry(const Values& values, Index n, Index d) const {
  return values.keys() ? column(*values.keys(), n, d) : d;
}

void Sites::change(const SiteEdit& edit, const Values& values, SiteEdit::Verb verb, float* operand,
                   const std::array<Index, 4>& strides) const {
  values.forEachRow([&](Index n, Index h, Index l) {
    const std::array<Index, 3> at = {selectedIndex(edit.selected[0], n), selectedIndex(edit.selected[1], h),
                                     selectedIndex(edit.selected[2], column(values.rows_of, n, l))};
    if (at[0] < 0 || at[1] < 0 || at[2] < 0) return;
    float *row = values.row(n, h, l), *first = operand + at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
    for (Index d = 0; d < values.width(n); ++d) {
      const Index last = selectedIndex(edit.selected[3], entry(values, n, d));
      if (last < 0) continue;
      float &x = row[d], &y = first[last * strides[3]];
      switch (verb) {
        case SiteEdit::Verb::kScale:
          x *= y;
          break;
        case SiteEdit::Verb::kAdd:
          x += y;
          break;
        case SiteEdit::Verb::kMap:  // before the function is called
          y = x;
          break;
        default:
          x = y;
      }
    }
  });
}

void Sites::apply(size_t number, const Values& values) {
  SiteEdit& edit = edits_[number];
  std::vector<float> operand;
  std::array<Index, 4> strides = {0, 0, 0, 1};
  switch (edit.verb) {
    case SiteEdit::Verb::kMean: {
      setToMean(edit, values);
      return;
    }
    case SiteEdit::Verb::kMap:
      for (size_t axis = 3; axis > 0; --axis) strides[axis - 1] = strides[axis] * edit.extents[axis];
      allocate("edit", {strides[0], edit.extents[0]}, operand);
      change(edit, values, SiteEdit::Verb::kMap, operand.data(), strides);
      map(number, operand);
      return change(edit, values, SiteEdit::Verb::kSet, operand.data(), strides);
    default:
      change(edit, values, edit.verb, edit.operand.data(), edit.strides);
  }
}

void Sites::setToMean(const SiteEdit& edit, const Values& values) const {
  Index width = 0;
  for (Index n = 0; n < values.rows_of.count(); ++n) {
    for (Index d = 0; d < values.width(n); ++d) width = std::max(width, 1 + entry(values, n, d));
  }
  std::vector<double> sums(static_cast<size_t>(width));
  const auto count = static_cast<double>(values.rows_of.totalRows());
  for (Index h = 0; h < values.heads; ++h) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const bool is_mean : {false, true}) {
      values.forEachRow([&](Index n, Index own, Index l) {
        if (own != h) return;
        float* row = values.row(n, h, l);
        const bool selected = selectedIndex(edit.selected[0], n) >= 0 && selectedIndex(edit.selected[1], h) >= 0 &&
                              selectedIndex(edit.selected[2], column(values.rows_of, n, l)) >= 0;
        for (Index d = 0; d < values.width(n); ++d) {
          const Index at = entry(values, n, d);
          double& sum = sums[static_cast<size_t>(at)];
          if (!is_mean)
            sum += static_cast<double>(row[d]);
          else if (selected && selectedIndex(edit.selected[3], at) >= 0)
            row[d] = static_cast<float>(sum / count);
        }
      });
    }
  }
}

void Sites::weigh(const float* scores, const AttentionOptions& options, std::span<const Mask> masks,
                  const std::array<Index, 3>& place, Index num_keys, float* weights) const {
  const auto& [n, h, i] = place;
  const Index position = options.query_offset + i;
  for (Index j = 0; j < num_keys; ++j) {
    float score = scores[j];
    bool allowed = (!options.causal || j <= position) && (!options.window || std::abs(position - j) <= *options.window);
    for (const Mask& mask : masks) {
      const auto& s = mask.strides;
      const void* entry = mask.at(n * s[0] + h * s[1] + i * s[2] + j * s[3]);
      if (mask.kind == Mask::Kind::kBoolean) {
        allowed = allowed && *static_cast<const uint8_t*>(entry) != 0;
      } else {
        const float added = *static_cast<const float*>(entry);
        allowed = allowed && added != kForbidden;
        score += added;
      }
    }
    weights[j] = allowed ? score : kForbidden;
  }
  softmaxRow(weights, num_keys);
}

void Sites::atAttention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                        const AttentionOutput& result, Context& context) {
  const Arena::Scope scope(context.arena);
  const Index size = attentionWeightsSize(num_heads, input.queries, input.keys);
  const bool changes = edits(Site::kScores) || edits(Site::kWeights);
  float* before = context.arena.take(changes ? size : 0);
  if (changes) std::copy_n(result.weights, size, before);
  if (touches(Site::kScores)) {
    AttentionOptions unmasked = options;
    unmasked.masks = {};
    unmasked.causal = false;
    unmasked.window.reset();
    unmasked.dropout = 0;
    float *scores = context.arena.take(size), *edited = context.arena.take(size);
    const MatrixView ignored = context.arena.matrix(result.output.rows(), result.output.cols());
    attention(input, num_heads, unmasked, {ignored, nullptr, scores}, context);
    std::copy_n(scores, size, edited);
    at(Site::kScores, edited, num_heads);
    const std::vector<Mask> masks = broadcastMasks(
        options.masks, {input.queries.count(), num_heads, input.queries.maxLength(), input.keys.maxLength()});
    forEachScoreRow(input, num_heads, [&](Index n, Index h, Index i, Index offset) {
      const Index num_keys = input.keys.length(n);
      if (!sameBits(scores + offset, edited + offset, num_keys))
        weigh(edited + offset, options, masks, {n, h, i}, num_keys, result.weights + offset);
    });
  }
  if (touches(Site::kWeights)) at(Site::kWeights, result.weights, num_heads);
  if (!changes) return;
  const Index key_heads = options.key_heads == 0 ? num_heads : options.key_heads,
              width = input.value.cols() / key_heads;
  forEachScoreRow(input, num_heads, [&](Index n, Index h, Index i, Index offset) {
    const Index num_keys = input.keys.length(n);
    if (sameBits(before + offset, result.weights + offset, num_keys)) return;
    const Value& mask = options.head_mask;
    const float factor = mask ? mask.data()[(mask.rows() == 1 ? 0 : n * num_heads) + h] : 1;
    const float kept = options.dropout > 0 ? keptScale(options.dropout, DropoutScaling::kInverted) : 1;
    DropoutRow draws(options.dropout_key, context.random.first_sequence + n, h, options.query_offset + i);
    MatrixView output = result.output;
    float* sum = output.data() + (input.queries.begin(n) + i) * output.outerStride() + h * width;
    std::fill_n(sum, width, 0.0f);
    for (Index j = 0; j < num_keys; ++j) {
      const float weight = result.weights[offset + j] * kept * factor;
      // Zero times an infinite or NaN value that a mask hides would be NaN.
      if (result.weights[offset + j] == 0 || (options.dropout > 0 && draws.drops(j, options.dropout))) continue;
      const ConstMatrixView value = input.value.values();
      const float* row =
          value.data() + (input.keys.begin(n) + j) * value.outerStride() + h * key_heads / num_heads * width;
      for (Index d = 0; d < width; ++d) sum[d] += weight * row[d];
    }
  });
}

}  // namespace heed
