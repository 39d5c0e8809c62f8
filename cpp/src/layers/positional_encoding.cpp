#include "heed/positional_encoding.h"

#include <algorithm>
#include <functional>

#include "core/check.h"

namespace heed {
namespace {

PositionalEncodingOptions checked(const PositionalEncodingOptions& options) {
  requireAtLeast("embedDim", options.embed_dim, 1);
  requireAtLeast("maxLength", options.max_length, 1);
  requireRoom("weight", {options.max_length, options.embed_dim});
  return options;
}

}  // namespace

PositionalEncoding::PositionalEncoding(const PositionalEncodingOptions& options) : options_(checked(options)) {
  allocate("weight", {options.max_length, options.embed_dim}, rows_);
  if (options.learned) return;
  positionalEncoding(options.base, view(rows_.data(), options.max_length, options.embed_dim), 0, options.start);
}

Index PositionalEncoding::outputWidth(Index width) const {
  if (options_.mode == PositionalEncodingOptions::Mode::kConcat) {
    (void)requireRoom("x", {width});  // so that the sum does not overflow
    return width + options_.embed_dim;
  }
  if (width != options_.embed_dim) {
    throwInvalid(ErrorCode::kShapeMismatch, "x", "width " + std::to_string(options_.embed_dim) + " (embedDim)",
                 "width " + std::to_string(width));
  }
  return width;
}

void PositionalEncoding::forward(ConstMatrixView x, const Sequences& sequences, MatrixView output) const {
  requireRows("x", x, sequences.totalRows());
  requireShape("output", readOnly(output), x.rows(), outputWidth(x.cols()));
  if (sequences.maxLength() > options_.max_length) {
    throwInvalid(ErrorCode::kShapeMismatch, "x",
                 "at most " + std::to_string(options_.max_length) + " positions (maxLength)",
                 std::to_string(sequences.maxLength()));
  }
  const Index width = options_.embed_dim;
  for (Index n = 0; n < sequences.count(); ++n) {
    for (Index i = 0; i < sequences.length(n); ++i) {
      const Index t = sequences.begin(n) + i;
      const float* from = x.data() + t * x.outerStride();
      const float* row = rows_.data() + i * width;
      float* to = output.data() + t * output.outerStride();
      if (options_.mode == PositionalEncodingOptions::Mode::kConcat) {
        std::copy_n(row, width, std::copy_n(from, x.cols(), to));
      } else {
        std::transform(from, from + width, row, to, std::plus<>());
      }
    }
  }
}

std::vector<Parameter> PositionalEncoding::ownParameters() {
  if (!options_.learned) return {};
  return {plainParameter("weight", {options_.max_length, options_.embed_dim}, rows_.data(), ParameterKind::kWeight,
                         InitialValue::normal())};
}

}  // namespace heed
