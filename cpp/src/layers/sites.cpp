#include "heed/sites.h"

#include <algorithm>
#include <cstdint>

#include "core/check.h"

namespace heed {
namespace {

/// The index of entry i of an axis in the selection, or -1 if it is not selected.
Index selectedIndex(const std::vector<Index>& selected, Index i) {
  if (selected.empty()) return i;
  return i < static_cast<Index>(selected.size()) ? selected[static_cast<size_t>(i)] : -1;
}

/// Requires an operand of `size` values with these strides to have a value for each value that the edit selects on axes
/// of these extents.
void requireFits(const SiteEdit& edit, const std::array<Index, 4>& extents, const std::array<Index, 4>& strides,
                 size_t size) {
  int64_t last = 0;
  for (size_t axis = 0; axis < extents.size(); ++axis) {
    const std::vector<Index>& selected = edit.selected[axis];
    const Index greatest = selected.empty() ? extents[axis] - 1 : std::ranges::max(selected);
    if (greatest < 0) return;  // nothing is selected
    if (strides[axis] < 0)
      throwInvalid(ErrorCode::kInvalidArgument, "edit", "strides >= 0", std::to_string(strides[axis]));
    last += int64_t{greatest} * strides[axis];
  }
  if (last >= static_cast<int64_t>(size))
    throwInvalid(ErrorCode::kShapeMismatch, "edit", "one value per selected entry", std::to_string(size) + " values");
}

}  // namespace

SiteValues::SiteValues(const Sequences& sequences, MatrixView rows, Index heads, Columns columns)
    : rows_(sequences),
      heads_(heads),
      columns_(std::move(columns)),
      data_(rows.data()),
      row_stride_(rows.outerStride()),
      width_(rows.cols() / heads) {}

SiteValues::SiteValues(const Sequences& queries, const Sequences& keys, float* values, Index heads, Columns columns)
    : rows_(queries), keys_(keys), heads_(heads), columns_(std::move(columns)), data_(values), starts_({0}) {
  for (Index n = 0; n < queries.count(); ++n)
    starts_.push_back(starts_.back() + heads * queries.length(n) * keys.length(n));
}

SiteValues SiteValues::in(float* values) const {
  SiteValues other = *this;
  other.data_ = values;
  other.row_stride_ = heads_ * width_;
  return other;
}

float* SiteValues::row(Index n, Index h, Index l) const {
  if (keys_) return data_ + starts_[static_cast<size_t>(n)] + (h * rows_.length(n) + l) * keys_->length(n);
  return data_ + (rows_.begin(n) + l) * row_stride_ + h * width_;
}

std::array<Index, 4> SiteValues::extents() const {
  std::array<Index, 4> all = {rows_.count(), heads_, 0, keys_ ? 0 : width_};
  for (Index n = 0; n < rows_.count(); ++n) {
    for (Index l = 0; l < rows_.length(n); ++l) all[2] = std::max(all[2], 1 + column(rows_, n, l));
    for (Index d = 0; keys_ && d < width(n); ++d) all[3] = std::max(all[3], 1 + entry(n, d));
  }
  return all;
}

ConstMatrixView SiteValues::all() const {
  const float* data = data_;
  return keys_ ? view(data, 1, starts_.back()) : view(data, rows_.totalRows(), heads_ * width_, row_stride_);
}

template <class F>
void SiteValues::forEachRow(const F& f) const {
  for (Index n = 0; n < rows_.count(); ++n) {
    for (Index h = 0; h < heads_; ++h) {
      for (Index l = 0; l < rows_.length(n); ++l) f(n, h, l);
    }
  }
}

Index SiteValues::column(const Sequences& sequences, Index n, Index row) const {
  return columns_ ? (*columns_)[static_cast<size_t>(sequences.begin(n) + row)] : row;
}

Index SiteValues::entry(Index n, Index d) const { return keys_ ? column(*keys_, n, d) : d; }

void SiteValues::change(const SiteEdit& edit, SiteEdit::Verb verb, float* operand,
                        const std::array<Index, 4>& strides) const {
  forEachRow([&](Index n, Index h, Index l) {
    const std::array<Index, 3> at = {selectedIndex(edit.selected[0], n), selectedIndex(edit.selected[1], h),
                                     selectedIndex(edit.selected[2], column(rows_, n, l))};
    if (at[0] < 0 || at[1] < 0 || at[2] < 0) return;
    float *values = row(n, h, l), *first = operand + at[0] * strides[0] + at[1] * strides[1] + at[2] * strides[2];
    for (Index d = 0; d < width(n); ++d) {
      const Index last = selectedIndex(edit.selected[3], entry(n, d));
      if (last < 0) continue;
      float &x = values[d], &y = first[last * strides[3]];
      switch (verb) {
        case SiteEdit::Verb::kScale:
          x *= y;
          break;
        case SiteEdit::Verb::kAdd:
          x += y;
          break;
        case SiteEdit::Verb::kMap:  // collects the selection for Sites::map()
          y = x;
          break;
        case SiteEdit::Verb::kCollect:
          y += x;
          break;
        default:
          x = y;
      }
    }
  });
}

void SiteValues::setToMean(const SiteEdit& edit) const {
  std::vector<double> sums(static_cast<size_t>(extents()[3]));
  const auto count = static_cast<double>(rows_.totalRows());
  for (Index h = 0; h < heads_; ++h) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (const bool is_mean : {false, true}) {
      forEachRow([&](Index n, Index own, Index l) {
        if (own != h) return;
        float* values = row(n, h, l);
        const bool selected = selectedIndex(edit.selected[0], n) >= 0 && selectedIndex(edit.selected[1], h) >= 0 &&
                              selectedIndex(edit.selected[2], column(rows_, n, l)) >= 0;
        for (Index d = 0; d < width(n); ++d) {
          const Index at = entry(n, d);
          double& sum = sums[static_cast<size_t>(at)];
          if (!is_mean)
            sum += static_cast<double>(values[d]);
          else if (selected && selectedIndex(edit.selected[3], at) >= 0)
            values[d] = static_cast<float>(sum / count);
        }
      });
    }
  }
}

Sites::Sites(const Sequences& queries, const Sequences& keys, std::vector<Index> columns)
    : queries_(queries), keys_(keys) {
  if (columns.empty()) return;
  requireShape("columns", {static_cast<Index>(columns.size())}, {std::max(queries.totalRows(), keys.totalRows())});
  if (std::ranges::min(columns) < 0)
    throwInvalid(ErrorCode::kInvalidArgument, "columns", "columns >= 0", std::to_string(std::ranges::min(columns)));
  columns_ = std::make_shared<const std::vector<Index>>(std::move(columns));
}

void Sites::enterStack(Index first_layer, const Sequences& sequences) {
  first_layer_ = first_layer;
  queries_ = keys_ = sequences;
}

void Sites::enterCrossAttention(const Sequences& keys) {
  ++layer_;
  keys_ = keys;
}

void Sites::leaveCrossAttention() {
  --layer_;
  keys_ = queries_;
}

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

SiteValues Sites::valuesOf(Site site, MatrixView rows, Index heads) const {
  return {site == Site::kKeys || site == Site::kValues ? keys_ : queries_, rows, heads, columns_};
}

void Sites::visit(Site site, const SiteValues& values) {
  for (size_t i = 0; i < edits_.size(); ++i) {
    if (edits_[i].layer == layer_ && edits_[i].site == site) apply(i, values);
  }
  if (reads(site)) read(layer_, site, values.all());
}

void Sites::apply(size_t number, const SiteValues& values) {
  SiteEdit& edit = edits_[number];
  if (edit.verb == SiteEdit::Verb::kMean) return values.setToMean(edit);
  if (edit.verb != SiteEdit::Verb::kMap) {
    requireFits(edit, values.extents(), edit.strides, edit.operand.size());
    return values.change(edit, edit.verb, edit.operand.data(), edit.strides);
  }
  std::array<Index, 4> strides = {0, 0, 0, 1};
  for (size_t axis = 3; axis > 0; --axis) strides[axis - 1] = strides[axis] * edit.extents[axis];
  std::vector<float> selection;
  allocate("edit", {strides[0], edit.extents[0]}, selection);
  requireFits(edit, values.extents(), strides, selection.size());
  values.change(edit, SiteEdit::Verb::kMap, selection.data(), strides);
  map(number, selection);
  values.change(edit, SiteEdit::Verb::kSet, selection.data(), strides);
}

void Sites::atAttention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                        const AttentionOutput& result, Context& context) {
  const Arena::Scope scope(context.arena);
  const Index size = attentionWeightsSize(num_heads, input.queries, input.keys);
  float* scores = touches(Site::kScores) ? context.arena.take(size) : nullptr;
  if (scores) {
    attention(input, num_heads, options, {result.output, nullptr, scores}, context);
    visit(Site::kScores, matricesOf(scores, num_heads));
  }
  attention(input, num_heads, options, result, context, {.scores = scores});
  if (!touches(Site::kWeights)) return;
  float* before = context.arena.take(size);
  std::copy_n(result.weights, size, before);
  visit(Site::kWeights, matricesOf(result.weights, num_heads));
  if (edits(Site::kWeights)) {
    attention(input, num_heads, options, {result.output}, context, {.weights = result.weights, .before = before});
  }
}

}  // namespace heed
