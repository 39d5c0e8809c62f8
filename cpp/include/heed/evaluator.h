#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heed/activation.h"
#include "heed/attention.h"
#include "heed/context.h"
#include "heed/dropout.h"
#include "heed/module.h"
#include "heed/sites.h"
#include "heed/value.h"

/// Executes the operations of layers. Layers and models define their forward pass once, in terms of an Evaluator:
/// InferenceEvaluator computes in the arena; train::RecordingEvaluator computes the same bits and records how to
/// differentiate them.
/// Notation: T rows of all sequences, E columns.
namespace heed {

class BatchNorm;
class LayerNorm;
class LayerScale;
class Linear;
class PositionalEncoding;

/// The windows of a convolution along a sequence of L rows, which is extended by `before` and `after` rows of zeros:
/// window u has the rows u stride + k dilation - before for k in [0, width).
struct Windows {
  Index width;
  Index stride = 1;
  Index dilation = 1;
  Index before = 0;
  Index after = 0;

  /// The number of windows of a sequence; 0 for an empty one. Throws kInvalidArgument if the padded sequence has more
  /// rows than Index can count.
  Index count(Index length) const;
};

/// T rows looked up in a table, such as token embeddings. The table has E columns.
struct TableRows {
  const RowStorage* storage;    ///< the table, or null
  const float* plain;           ///< the table in row-major order, if `storage` is null
  std::span<const Index> rows;  ///< (T) indices of the table's rows
  float scale = 1;              ///< factor on the rows
  bool sparse = false;          ///< store gradients only for the rows that were looked up
};

/// output (T, E) = the sum of the rows looked up in each table, added in the order of `tables`. Only the first table
/// may have a `storage`.
void lookUp(std::span<const TableRows> tables, MatrixView output);

/// Values are valid until the end of the Scope in which they were computed. An operation *consumes* an argument if it
/// may write its result to the argument's memory; the argument must not be used afterwards.
class Evaluator {
 public:
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  /// Releases every value computed in the scope, except for its result.
  class Scope {
   public:
    explicit Scope(Evaluator& evaluator)
        : evaluator_(evaluator), arena_(evaluator.context().arena), first_(evaluator.beginScope()) {}
    /// Ends the scope. The result must be in memory taken before the scope began: that of a consumed argument.
    Value leave(const Value& result) { return evaluator_.endScope(first_, result); }

   private:
    Evaluator& evaluator_;
    Arena::Scope arena_;
    Index first_;
  };

  Context& context() const { return context_; }

  /// Sets the Sites that read and edit the following calls; null (the default): none. They must exist while they are
  /// set.
  void setSites(Sites* sites) { sites_ = sites; }
  Sites* sites() const { return sites_; }
  bool touches(Site site) const { return sites_ && sites_->touches(site); }
  /// Edits x at `site`, passes it to the readers and returns it. Consumes x. `heads`: number of heads in a row of x.
  Value at(Site site, const Value& x, Index heads = 1) { return touches(site) ? visit(site, x, heads) : x; }
  /// Begins the sites of layer i of a stack; i = the number of layers: the stack's output, see Site::kOutput.
  void enterLayer(Index i) const {
    if (sites_) sites_->enterLayer(i);
  }
  /// See Sites.
  void enterStack(Index first_layer, const Sequences& sequences) const {
    if (sites_) sites_->enterStack(first_layer, sequences);
  }
  void enterCrossAttention(const Sequences& keys) const {
    if (sites_) sites_->enterCrossAttention(keys);
  }
  void leaveCrossAttention() const {
    if (sites_) sites_->leaveCrossAttention();
  }

  /// phi(x W^T + b) + residual; ignores the layer's decorator. Consumes `residual`, which may be null, and x if
  /// `consumes_x`.
  virtual Value linear(const Linear& layer, const Value& x, const Value* residual = nullptr,
                       bool consumes_x = false) = 0;
  /// x W^T + b; ignores the layer's activation and decorator.
  virtual Value product(const Linear& layer, const Value& x) = 0;
  /// linear() for several layers of one input, see forwardAll().
  virtual void linears(std::span<const Linear* const> layers, const Value& x, Value* results) = 0;
  /// Layer norm or RMSNorm of each row of x, or, if x is wider than the norm, of each group of normalized_shape
  /// columns. Consumes x if `in_place`.
  virtual Value normalize(const LayerNorm& norm, const Value& x, bool in_place = false) = 0;
  /// x times the layer's factors, column by column. Consumes x.
  virtual Value scaleColumns(const LayerScale& layer, const Value& x) = 0;
  virtual Value batchNormalize(BatchNorm& norm, const Value& x) = 0;
  /// Adds or appends positional encodings.
  virtual Value encodePositions(const PositionalEncoding& encoding, const Value& x, const Sequences& sequences) = 0;
  /// Drops entries of x with the draws of `key`: row t uses those of row context().random.first_row + t, column c those
  /// of column `first_column` + c. Consumes x.
  virtual Value dropout(const Value& x, const DropoutOptions& options, const DropoutKey& key, Index first_column) = 0;
  /// The sum of the rows looked up in each table, added in the order of `tables`: (T, width).
  virtual Value lookUp(std::span<const TableRows> tables, Index width) = 0;

  /// phi(x W^T + b) with weight (out, in) and bias (1, out), which may be empty.
  virtual Value linear(const Value& x, const Value& weight, const Value& bias, Activation activation) = 0;
  /// Layer norm of each row with weight and bias (1, E), which may be empty. Consumes x.
  virtual Value layerNorm(const Value& x, const Value& weight, const Value& bias, float eps) = 0;
  /// Softmax of each row. Consumes x.
  virtual Value softmax(const Value& x) = 0;

  /// Attention of all heads, see heed/attention.h: query (sum L_n, H Dk), key (sum S_n, Hk Dk), value (sum S_n, Hk Dv);
  /// `weights` is null or as in AttentionOutput.
  virtual Value attention(const AttentionInput& input, Index num_heads, const AttentionOptions& options,
                          float* weights) = 0;
  /// phi(x). Consumes x.
  virtual Value activate(const Value& x, Activation activation) = 0;
  /// phi(x[:, :F]) * x[:, F:] of x (T, 2F); with `second`, x[:, :F] * phi(x[:, F:]). Consumes x.
  virtual Value gate(const Value& x, Activation activation, bool second) = 0;
  /// a + b. Consumes both.
  virtual Value add(const Value& a, const Value& b) = 0;
  /// a * b, element by element. Consumes a.
  virtual Value multiply(const Value& a, const Value& b) = 0;
  /// factor x. Consumes x.
  virtual Value scale(const Value& x, float factor) = 0;
  /// x with `part` (T, n) added to its columns [first, first + n). Consumes both.
  virtual Value addColumns(const Value& x, const Value& part, Index first) = 0;
  /// Rotates the heads of x (T, H Dh); the first row of each sequence has position `first_position`. Consumes x.
  virtual Value rotate(const Rotary& rotary, const Value& x, const Sequences& sequences, Index num_heads,
                       Index first_position) = 0;
  /// The windows of a convolution along each sequence, (number of windows, E width), see ops/windows.h.
  virtual Value gatherWindows(const Value& x, const Sequences& sequences, const Windows& windows) = 0;
  virtual Value transpose(const Value& x) = 0;
  /// The rows of all parts, one part after another. All have the same width.
  virtual Value concatenateRows(std::span<const Value> parts) = 0;
  /// A copy of columns [first, first + count).
  virtual Value columns(const Value& x, Index first, Index count) = 0;
  /// The first `columns` columns of row i.
  virtual Value row(const Value& x, Index i, Index columns) = 0;
  /// The rows of x at `indices`, in that order.
  virtual Value gatherRows(const Value& x, std::vector<Index> indices) = 0;
  /// The same elements as a (rows, columns) matrix. The result may be in x's memory.
  virtual Value reshape(const Value& x, Index rows, Index columns) = 0;
  /// A copy of x, which may be consumed while x is still needed.
  virtual Value copy(const Value& x) = 0;

  /// An uninitialized matrix for a result that is computed in parts, so that the memory of one part can be released
  /// before the next. Empty if operations are recorded.
  virtual Value unwritten(Index rows, Index columns) = 0;
  /// Keeps an argument of operations, such as Rotary tables or a mask's data, alive while this evaluator or, if
  /// operations are recorded, the graph needs it.
  virtual void share(std::shared_ptr<const void> argument) = 0;
  /// Consumes x without computing anything.
  virtual void release(const Value& x) = 0;
  /// Whether values that depend only on parameters may be cached between calls.
  virtual bool keepsValues() const = 0;

 protected:
  explicit Evaluator(Context& context) : context_(context) {}
  ~Evaluator() = default;

 private:
  /// Begins a scope. Returns an identifier for endScope().
  virtual Index beginScope() = 0;
  /// Ends the scope that beginScope() identified by `first`; `result` moves to the enclosing scope.
  virtual Value endScope(Index first, const Value& result) = 0;
  /// Implements at() for a site that is read or edited.
  virtual Value visit(Site site, const Value& x, Index heads) = 0;

  Context& context_;
  Sites* sites_ = nullptr;
};

}  // namespace heed
