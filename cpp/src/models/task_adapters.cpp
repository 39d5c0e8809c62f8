#include "models/task_adapters.h"

#include "core/check.h"

namespace heed {

TaskAdapters::TaskAdapters(const EncoderModelConfig& config, const std::vector<std::unique_ptr<EncoderLayer>>& layers)
    : tasks_(config.adapter_tasks), rank_(config.adapter_rank), scale_(config.adapter_scale) {
  all_.reserve(kTables + kPerLayer * layers.size());
  add(config.vocab_size, config.layer.embed_dim, true);
  add(config.type_vocab_size, config.layer.embed_dim, true);
  for (const auto& layer : layers) {
    const std::vector<Linear*> attention = layer->selfAttention().linears();
    const std::array<Linear*, 2> ffn = layer->feedForward().linears();
    const Linear* const adapted[kPerLayer] = {attention[0], attention[3], ffn[0], ffn[1]};
    for (const Linear* linear : adapted) {
      const Index matrices = linear == attention[0] ? 3 : 1;  // queries, keys and values share an adapter
      add(linear->options().in_features, matrices * linear->options().out_features, false);
    }
  }
}

void TaskAdapters::add(Index inputs, Index outputs, bool is_table) {
  Adapter& made = all_.emplace_back(Adapter{inputs, outputs, is_table, {}, {}});
  allocate("adapters", {tasks_ * rank_, inputs}, made.a);
  allocate("adapters", {tasks_ * rank_, outputs}, made.b);
}

ConstMatrixView TaskAdapters::a(const Adapter& adapter, Index task) const {
  const float* begin = adapter.a.data() + task * rank_ * adapter.inputs;
  return adapter.is_table ? view(begin, adapter.inputs, rank_) : view(begin, rank_, adapter.inputs);
}

ConstMatrixView TaskAdapters::b(const Adapter& adapter, Index task) const {
  const float* begin = adapter.b.data() + task * rank_ * adapter.outputs;
  return adapter.is_table ? view(begin, rank_, adapter.outputs) : view(begin, adapter.outputs, rank_);
}

Value TaskAdapters::embed(Evaluator& e, Value x, std::span<const Index> ids, std::span<const Index> types,
                          Index task) const {
  const std::span<const Index> rows[kTables] = {ids, types};
  for (size_t i = 0; i < kTables; ++i) {
    const Adapter& adapter = all_[i];
    if (adapter.a.empty()) continue;
    const TableRows table{nullptr, a(adapter, task).data(), rows[i], scale_};
    const Value weight = e.transpose(Value::constant(b(adapter, task)));
    x = e.add(x, e.linear(e.lookUp({&table, 1}, rank_), weight, {}, Activation::kIdentity));
  }
  return x;
}

std::vector<Parameter> TaskAdapters::ownParameters() {
  static constexpr std::array<const char*, kTables> kTableNames = {"embeddings.word", "embeddings.token_type"};
  static constexpr std::array<const char*, kPerLayer> kNames = {"self_attn.in_proj", "self_attn.out_proj", "linear1",
                                                                "linear2"};
  std::vector<Parameter> own;
  for (size_t i = 0; i < all_.size(); ++i) {
    Adapter& adapter = all_[i];
    if (adapter.a.empty()) continue;
    const size_t at = i - kTables;
    const std::string name =
        i < kTables ? kTableNames[i] : "layers." + std::to_string(at / kPerLayer) + "." + kNames[at % kPerLayer];
    const auto add = [&](const char* suffix, Index rows, Index columns, std::vector<float>& values,
                         InitialValue initial) {
      const Shape shape = adapter.is_table ? Shape{tasks_, rows, columns} : Shape{tasks_, columns, rows};
      own.push_back(plainParameter(name + suffix, shape, values.data(), ParameterKind::kWeight, initial));
    };
    add(".lora_A", adapter.inputs, rank_, adapter.a, InitialValue::normal());
    add(".lora_B", rank_, adapter.outputs, adapter.b, InitialValue::constant(0));
  }
  return own;
}

Value TaskAdapters::Adapted::forward(Evaluator& e, const Linear& layer, const Value& x, const Value* residual,
                                     bool consumes_x) const {
  if (&e != &e_)
    return outer_ ? outer_->forward(e, layer, x, residual, consumes_x) : e.linear(layer, x, residual, consumes_x);
  const ConstMatrixView all = owner_.b(adapter_, task_);
  const Value a = Value::constant(owner_.a(adapter_, task_));
  const Value b = Value::constant(view(all.data() + first_ * owner_.rank_, layer.options().out_features, owner_.rank_));
  const Value hidden = e.scale(e.linear(x, a, {}, Activation::kIdentity), owner_.scale_);
  const Value y = e.add(e.product(layer, x), e.linear(hidden, b, {}, Activation::kIdentity));
  return finish(e, layer, y, x, residual, consumes_x);
}

TaskAdapters::Scope::Scope(const TaskAdapters& adapters, const Evaluator& e, EncoderLayer& layer, Index i, Index task)
    : adapted_([&]() -> std::array<Adapted, 6> {
        const Adapter* own = adapters.all_.data() + kTables + static_cast<size_t>(i) * kPerLayer;
        const std::vector<Linear*> attention = layer.selfAttention().linears();
        const std::array<Linear*, 2> ffn = layer.feedForward().linears();
        const Index width = attention[0]->options().out_features;
        return {Adapted(adapters, e, *attention[0], own[0], 0, task),
                Adapted(adapters, e, *attention[1], own[0], width, task),
                Adapted(adapters, e, *attention[2], own[0], 2 * width, task),
                Adapted(adapters, e, *attention[3], own[1], 0, task),
                Adapted(adapters, e, *ffn[0], own[2], 0, task),
                Adapted(adapters, e, *ffn[1], own[3], 0, task)};
      }()) {}

}  // namespace heed
