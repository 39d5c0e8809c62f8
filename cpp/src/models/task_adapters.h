#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "heed/encoder.h"
#include "heed/encoder_model.h"
#include "heed/evaluator.h"
#include "heed/linear.h"

namespace heed {

/// Low-rank adapters of the tables and of the layers' matrices, one set per task: W + scale B_t A_t for a matrix
/// W (out, in) and task t (Hu et al. 2021, arXiv:2106.09685; Sturua et al. 2024, arXiv:2409.10173), and, for tables
/// (V, D), rows w_id + scale a_id B_t.
///
/// Notation: N tasks, R rank. Parameters: <name>.lora_A (N, R, in) and <name>.lora_B (N, out, R) for the matrices
/// layers.<i>.{self_attn.in_proj,self_attn.out_proj,linear1,linear2}; <name>.lora_A (N, V, R) and <name>.lora_B
/// (N, R, D) for the tables embeddings.{word,token_type}.
class TaskAdapters final : public Module {
 public:
  TaskAdapters(const EncoderModelConfig& config, const std::vector<std::unique_ptr<EncoderLayer>>& layers);

  /// Adds the tables' adapters of `task` to embeddings x (T, D), which are consumed. `ids`, `types` (T): rows.
  Value embed(Evaluator& e, Value x, std::span<const Index> ids, std::span<const Index> types, Index task) const;

  /// Adds the adapters of a task to the matrices of a layer in calls of `e`, while it exists. Scopes may be nested,
  /// because a callback during a call may start another one.
  class Scope;

 private:
  struct Adapter {
    Index inputs, outputs;  // of tables: rows, width
    bool is_table;
    std::vector<float> a, b;
  };
  class Adapted;
  static constexpr size_t kTables = 2, kPerLayer = 4;
  std::vector<Child> children() override { return {}; }
  std::vector<Parameter> ownParameters() override;
  void add(Index inputs, Index outputs, bool is_table);
  ConstMatrixView a(const Adapter& adapter, Index task) const;
  ConstMatrixView b(const Adapter& adapter, Index task) const;

  Index tasks_, rank_;
  float scale_;
  std::vector<Adapter> all_;  // of the word and token type tables, then of the matrices of each layer
};

/// Adds outputs of an adapter, starting with output `first`, to those of a linear layer in calls of one evaluator.
class TaskAdapters::Adapted final : public LinearDecorator {
 public:
  Adapted(const TaskAdapters& owner, const Evaluator& e, Linear& layer, const Adapter& adapter, Index first, Index task)
      : owner_(owner), e_(e), layer_(layer), adapter_(adapter), first_(first), task_(task), outer_(layer.decorator()) {
    layer.setDecorator(this);
  }
  ~Adapted() { layer_.setDecorator(outer_); }
  Adapted(const Adapted&) = delete;
  Adapted& operator=(const Adapted&) = delete;

  Value forward(Evaluator& e, const Linear& layer, const Value& x, const Value* residual,
                bool consumes_x) const override;

 private:
  const TaskAdapters& owner_;
  const Evaluator& e_;
  Linear& layer_;
  const Adapter& adapter_;
  Index first_, task_;
  const LinearDecorator* outer_;  // for other evaluators; restored at the end
};

class TaskAdapters::Scope {
 public:
  Scope(const TaskAdapters& adapters, const Evaluator& e, EncoderLayer& layer, Index i, Index task);

 private:
  std::array<Adapted, 6> adapted_;
};

}  // namespace heed
