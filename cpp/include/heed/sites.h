#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heed/attention.h"
#include "heed/context.h"
#include "heed/tensor.h"

/// Named points of a forward pass at which activations can be read and edited, like forward hooks in PyTorch.
/// Notation: N sequences of L queries and S keys, T rows of all sequences, H heads of queries, Hk heads of keys and
/// values, Dk and Dv width of one head's keys and values, E width of the model, F width of the feed-forward's hidden
/// layer.
namespace heed {

enum class Site : uint8_t {
  kInput,        ///< (T, E) a layer's input
  kQueries,      ///< (T, H Dk) after norm and rotation, before scaling
  kKeys,         ///< (T, Hk Dk) after norm and rotation
  kValues,       ///< (T, Hk Dv)
  kScores,       ///< H x L x S per sequence: scaled, with position terms, before masks
  kWeights,      ///< H x L x S per sequence: the softmax's result, before dropout and head mask
  kHeads,        ///< (T, H Dv) weights times values, times the head mask
  kAttention,    ///< (T, E) the attention block's result, before it is added to the residual stream
  kHidden,       ///< (T, F) the feed-forward's hidden layer, after activation and gate
  kFeedForward,  ///< (T, E) the feed-forward block's result, before it is added to the residual stream
  kOutput,       ///< (T, E) a layer's output. With layer = number of layers: the stack's output, after its final norm
};

/// An edit of one site of one layer. The values of a site have the axes n (sequences), h (heads), l (rows) and d
/// (features, or keys at kScores and kWeights).
struct SiteEdit {
  enum class Verb {
    kScale,    ///< x times the operand
    kAdd,      ///< x plus the operand
    kSet,      ///< the operand
    kMean,     ///< the mean over n and l of all rows, selected or not
    kMap,      ///< the result of Sites::map() for the selection
    kCollect,  ///< operand plus x, which sums the operand's gradient; only for SiteValues::change(), not in edits
  };
  Index layer;
  Site site;
  Verb verb;
  /// Per axis: the index in the selection of each entry, or -1 if it is not selected. Empty: all are selected. Rows and
  /// keys are numbered by the columns of Sites. The last axis can be selected at kScores and kWeights only.
  std::array<std::vector<Index>, 4> selected = {};
  std::array<Index, 4> extents = {};  ///< kMap: extents of the selection
  /// kScale, kAdd, kSet: the operand. Its entry for indices (n, h, l, d) in the selection is at n strides[0] +
  /// h strides[1] + l strides[2] + d strides[3].
  std::vector<float> operand = {};
  std::array<Index, 4> strides = {};
};

/// The values of a site as rows (n, h, l) of features or keys.
class SiteValues {
 public:
  /// (T) the column of each row in the caller's padded tensors; null: 0, 1, 2, ... in each sequence.
  using Columns = std::shared_ptr<const std::vector<Index>>;

  /// Rows of `heads` heads each.
  SiteValues(const Sequences& sequences, MatrixView rows, Index heads, Columns columns);
  /// kScores and kWeights: (H, L_n, S_n) of each sequence n, one after the other.
  SiteValues(const Sequences& queries, const Sequences& keys, float* values, Index heads, Columns columns);
  /// The same site with other values, stored without gaps between the rows.
  SiteValues in(float* values) const;

  /// All rows as a matrix; kScores and kWeights: all values as one row.
  ConstMatrixView all() const;
  Index heads() const { return heads_; }
  bool isMatrix() const { return keys_.has_value(); }
  /// The extents of the axes (n, h, l, d); rows and keys are numbered by the columns of Sites.
  std::array<Index, 4> extents() const;
  /// For each value x that the edit selects and its operand y: kScale x <- x y, kAdd x <- x + y, kSet x <- y, kMap
  /// y <- x, kCollect y <- y + x.
  void change(const SiteEdit& edit, SiteEdit::Verb verb, float* operand, const std::array<Index, 4>& strides) const;
  void setToMean(const SiteEdit& edit) const;

 private:
  float* row(Index n, Index h, Index l) const;
  /// The number of features, or of keys of sequence n.
  Index width(Index n) const { return keys_ ? keys_->length(n) : width_; }
  /// The column of a row of sequence n.
  Index column(const Sequences& sequences, Index n, Index row) const;
  /// Feature d, or the column of key d of sequence n.
  Index entry(Index n, Index d) const;
  /// Calls f(n, h, l).
  template <class F>
  void forEachRow(const F& f) const;

  Sequences rows_;
  std::optional<Sequences> keys_;  // only for kScores and kWeights
  Index heads_;
  Columns columns_;
  float* data_;
  Index row_stride_ = 0, width_ = 0;
  std::vector<Index> starts_;  // kScores, kWeights: index of each sequence's first value
};

/// Reads and edits the sites of one forward pass. At each site, the edits are applied in the order in which they were
/// added; then the site is read.
class Sites {
 public:
  /// `columns`: see SiteValues::Columns; empty: 0, 1, 2, ... in each sequence.
  Sites(const Sequences& queries, const Sequences& keys, std::vector<Index> columns = {});
  virtual ~Sites() = default;
  Sites(const Sites&) = delete;
  Sites& operator=(const Sites&) = delete;

  /// Registers a read. Call it before the pass.
  void addRead(Index layer, Site site) { reads_.push_back({layer, site}); }
  /// Registers an edit. Call it before the pass. If the edit does not fit the values of its site, the pass throws
  /// kShapeMismatch there.
  void addEdit(SiteEdit edit) { edits_.push_back(std::move(edit)); }

  /// Begins layer `layer` of the current stack, counted from 0.
  void enterLayer(Index layer) { layer_ = first_layer_ + layer; }
  /// Begins a stack of layers over other sequences. Its first layer has number `first_layer` in reads and edits.
  void enterStack(Index first_layer, const Sequences& sequences);
  /// Begins a decoder layer's cross-attention to `keys`. Its sites have the number of the next layer.
  void enterCrossAttention(const Sequences& keys);
  void leaveCrossAttention();
  /// Whether a site of the current layer is read or edited.
  bool touches(Site site) const { return reads(site) || edits(site); }
  /// Whether a site of the current layer is edited.
  bool edits(Site site) const;
  /// Edits and reads the rows of a site. `heads`: number of heads in a row.
  void at(Site site, MatrixView rows, Index heads) { visit(site, valuesOf(site, rows, heads)); }
  /// Computes attention and edits and reads kScores and kWeights on the way. The weights of `result` must not be null.
  /// Output rows that the edits do not change keep their bits.
  void atAttention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                   const AttentionOutput& result, Context& context);

 protected:
  /// Receives the values of a site, see SiteValues::all().
  virtual void read(Index layer, Site site, ConstMatrixView values) = 0;
  /// kMap: replaces the selection of edit number `edit`, counted from 0 in the order of addEdit(). The selection is
  /// zero at padding.
  virtual void map(size_t edit, std::vector<float>& selection) = 0;

  Index layer() const { return layer_; }
  const std::vector<SiteEdit>& edits() const { return edits_; }
  struct Read {
    Index layer;
    Site site;
  };
  const std::vector<Read>& reads() const { return reads_; }
  bool reads(Site site) const;
  SiteValues valuesOf(Site site, MatrixView rows, Index heads) const;
  SiteValues matricesOf(float* values, Index heads) const { return {queries_, keys_, values, heads, columns_}; }
  void apply(size_t edit, const SiteValues& values);

 private:
  void visit(Site site, const SiteValues& values);

  Sequences queries_, keys_;
  SiteValues::Columns columns_;
  std::vector<Read> reads_;
  std::vector<SiteEdit> edits_;
  Index first_layer_ = 0, layer_ = 0;
};

}  // namespace heed
