#include "heed/convolution.h"

#include "core/check.h"

namespace heed {
namespace {

ConvolutionOptions checked(const ConvolutionOptions& o) {
  requireAtLeast("inChannels", o.in_channels, 1);
  requireAtLeast("outChannels", o.out_channels, 1);
  requireAtLeast("groups", o.groups, 1);
  requireAtLeast("kernelSize", o.windows.width, 1);
  for (const auto& [name, channels] : {std::pair{"inChannels", o.in_channels}, {"outChannels", o.out_channels}}) {
    if (channels % o.groups == 0) continue;
    throwInvalid(ErrorCode::kInvalidArgument, "groups",
                 "a divisor of " + std::string(name) + " (" + std::to_string(channels) + ")", std::to_string(o.groups));
  }
  // These bound all positions, so that their sums cannot overflow.
  requireRoom("dilation", {o.windows.dilation, o.windows.width});
  requireRoom("padding", {o.windows.before + 1});
  requireRoom("padding", {o.windows.after + 1});
  requireRoom("weight", {o.out_channels, o.in_channels / o.groups, o.windows.width});
  return o;
}

}  // namespace

Convolution::Convolution(const ConvolutionOptions& options) : options_(checked(options)) {
  for (Index g = 0; g < options.groups; ++g) {
    groups_.emplace_back(LinearOptions{.in_features = options.in_channels / options.groups * options.windows.width,
                                       .out_features = options.out_channels / options.groups,
                                       .bias = options.bias});
  }
}

Value Convolution::forward(Evaluator& e, const Value& x, const Sequences& sequences) const {
  requireColumns("x", x.values(), options_.in_channels);
  const Value windows = e.gatherWindows(x, sequences, options_.windows);
  if (options_.groups == 1) return groups_[0].forward(e, windows);
  const Index width = groups_[0].options().in_features, rows = windows.rows();
  std::vector<Value> outputs(groups_.size());
  // Reorders the rows (group, window) to (window, group).
  std::vector<Index> order(static_cast<size_t>(options_.groups * rows));
  for (Index g = 0; g < options_.groups; ++g) {
    const auto place = static_cast<size_t>(g);
    outputs[place] = groups_[place].forward(e, e.columns(windows, g * width, width));
    for (Index row = 0; row < rows; ++row) order[static_cast<size_t>(row * options_.groups + g)] = g * rows + row;
  }
  return e.reshape(e.gatherRows(e.concatenateRows(outputs), std::move(order)), rows, options_.out_channels);
}

std::vector<Parameter> Convolution::ownParameters() {
  std::vector<Parameter> own;
  // Each parameter is the concatenation of the groups' rows.
  for (Linear& group : groups_) {
    std::vector<Parameter> parts = group.ownParameters();
    if (own.empty()) {
      own = std::move(parts);
      continue;
    }
    for (size_t i = 0; i < own.size(); ++i) own[i].parts.push_back(parts[i].parts[0]);
  }
  own[0].shape = {options_.out_channels, options_.in_channels / options_.groups, options_.windows.width};
  if (options_.bias) own[1].shape = {options_.out_channels};
  return own;
}

}  // namespace heed
