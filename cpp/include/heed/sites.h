#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heed/attention.h"
#include "heed/context.h"
#include "heed/tensor.h"

/// Named places of an encoder's forward pass, which can be read and edited: what forward hooks are in PyTorch.
/// Notation: N sequences of L queries and S keys, T rows of all sequences, H heads of queries, Hk of keys and values,
/// Dk and Dv width of one head's keys and values, E width of the model, F of the hidden layer of the feed-forward.
namespace heed {

enum class Site : uint8_t {
  kInput,        ///< (T, E) a layer's input
  kQueries,      ///< (T, H Dk) as attention multiplies them: after norm and rotation, not yet scaled
  kKeys,         ///< (T, Hk Dk)
  kValues,       ///< (T, Hk Dv)
  kScores,       ///< H x L x S per sequence: scaled, with position terms, before masks
  kWeights,      ///< H x L x S per sequence: the softmax's result, before dropout and head mask
  kHeads,        ///< (T, H Dv) weights times values, times the head mask
  kAttention,    ///< (T, E) the attention block's result, before it is added to the residual stream
  kHidden,       ///< (T, F) the feed-forward block after its activation and gate
  kFeedForward,  ///< (T, E) the feed-forward block's result, before it is added
  kOutput,       ///< (T, E) a layer's output; of layer `number of layers`, the model's, after its final norm
};

/// A change of a site. The values of a site have the axes n (sequences), h (heads), l (rows) and d (features; at
/// kScores and kWeights, keys).
struct SiteEdit {
  enum class Verb {
    kScale,    ///< x times the operand
    kAdd,      ///< x plus the operand
    kSet,      ///< the operand
    kMean,     ///< the mean over n and l of all rows, selected or not
    kMap,      ///< what Sites::map() makes of the selection
    kCollect,  ///< never that of an edit: adds x to the operand, to sum up its gradient
  };
  Index layer;
  Site site;
  Verb verb;
  /// Per axis: the index of each entry in the selection, -1 for entries that are not selected. Empty: all are selected.
  /// Rows and keys count by the columns of Sites. The last axis can be selected at kScores and kWeights only.
  std::array<std::vector<Index>, 4> selected = {};
  std::array<Index, 4> extents = {};  ///< kMap: of the selection
  /// kScale, kAdd, kSet: the operand, whose entry for indices (n, h, l, d) in the selection is at the sum of the
  /// products of index and stride.
  std::vector<float> operand = {};
  std::array<Index, 4> strides = {};
};

/// The values of a site as rows (n, h, l) of features or keys.
class SiteValues {
 public:
  /// Which column of the caller's padded tensors each row of all sequences has; null: 0, 1, 2, ... in each sequence.
  using Columns = std::shared_ptr<const std::vector<Index>>;

  /// Rows with `heads` heads side by side.
  SiteValues(const Sequences& sequences, MatrixView rows, Index heads, Columns columns);
  /// kScores and kWeights: (H, L_n, S_n) of each sequence n, one after the other.
  SiteValues(const Sequences& queries, const Sequences& keys, float* values, Index heads, Columns columns);
  /// Other values of the same site, without gaps between the rows.
  SiteValues in(float* values) const;

  /// All rows, or one row of all values of kScores and kWeights.
  ConstMatrixView all() const;
  Index heads() const { return heads_; }
  bool isMatrix() const { return keys_.has_value(); }
  /// The extents of the axes (n, h, l, d), in the columns of Sites.
  std::array<Index, 4> extents() const;
  /// x <- x * y, x + y or y for each value x that the edit selects and its operand y; kMap: y <- x.
  void change(const SiteEdit& edit, SiteEdit::Verb verb, float* operand, const std::array<Index, 4>& strides) const;
  void setToMean(const SiteEdit& edit) const;

 private:
  float* row(Index n, Index h, Index l) const;
  /// The number of features, or of keys of sequence n.
  Index width(Index n) const { return keys_ ? keys_->length(n) : width_; }
  /// The column of a row, and the feature or the column of the key that a value has.
  Index column(const Sequences& sequences, Index n, Index row) const;
  Index entry(Index n, Index d) const;
  /// Calls f(n, h, l).
  template <class F>
  void forEachRow(const F& f) const;

  Sequences rows_;
  std::optional<Sequences> keys_;  // none where the last axis has features
  Index heads_;
  Columns columns_;
  float* data_;
  Index row_stride_ = 0, width_ = 0;
  std::vector<Index> starts_;  // of each sequence's scores or weights
};

/// Reads and edits the sites of one forward pass. Each site is edited in the order of the edits, then read.
class Sites {
 public:
  /// `columns` as in SiteValues; empty for null.
  Sites(const Sequences& queries, const Sequences& keys, std::vector<Index> columns = {});
  virtual ~Sites() = default;
  Sites(const Sites&) = delete;
  Sites& operator=(const Sites&) = delete;

  /// To be called before the pass. An edit that does not fit the values of its site throws kShapeMismatch when the pass
  /// comes to it.
  void addRead(Index layer, Site site) { reads_.push_back({layer, site}); }
  void addEdit(SiteEdit edit) { edits_.push_back(std::move(edit)); }

  /// Begins a layer; the first one is 0.
  void enterLayer(Index layer) { layer_ = first_layer_ + layer; }
  /// Begins a stack of layers over other sequences, whose first layer has the number `first_layer` here.
  void enterStack(Index first_layer, const Sequences& sequences);
  /// What follows is a decoder layer's attention to other keys, whose sites have the number of the next layer.
  void enterCrossAttention(const Sequences& keys);
  void leaveCrossAttention();
  /// Whether a site of the current layer is read or edited.
  bool touches(Site site) const { return reads(site) || edits(site); }
  /// Whether it is edited.
  bool edits(Site site) const;
  /// Edits and reads the rows of a site, which have `heads` heads side by side.
  void at(Site site, MatrixView rows, Index heads) { visit(site, valuesOf(site, rows, heads)); }
  /// Edits and reads kScores and kWeights after attention has computed `result`, whose weights must not be null. A row
  /// that an edit leaves as it was keeps its bits in the output.
  void atAttention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                   const AttentionOutput& result, Context& context);

 protected:
  /// Receives the values of a site, see SiteValues::all().
  virtual void read(Index layer, Site site, ConstMatrixView values) = 0;
  /// kMap: replaces the selection of an edit, whose number is its place in the order of addEdit(), zeros at padding.
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
