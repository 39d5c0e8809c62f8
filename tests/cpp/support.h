#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "heed/context.h"
#include "heed/inference_evaluator.h"
#include "heed/module.h"
#include "heed/random.h"
#include "heed/tensor.h"

/// Shared by the tests of layers: random inputs, tolerances, expected errors.
namespace heed::test {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

inline MatrixView window(RowMajorMatrix& m) { return view(m.data(), m.rows(), m.cols()); }
inline ConstMatrixView window(const RowMajorMatrix& m) { return view(m.data(), m.rows(), m.cols()); }

/// A value for operations that only read it.
inline Value valueOf(const RowMajorMatrix& m) { return Value::constant(window(m)); }

/// A call of layers in inference.
struct Inference {
  Context context;
  InferenceEvaluator e{context};

  /// A copy of m, which may be consumed.
  Value operator()(const RowMajorMatrix& m) { return e.copy(valueOf(m)); }
};

/// Uniform in [-1, 1).
RowMajorMatrix randomMatrix(Index rows, Index columns, uint64_t seed);

/// A matrix with the given rows.
RowMajorMatrix matrix(std::initializer_list<std::initializer_list<float>> rows);

/// Expects |got - expected| <= 1e-5 + 1e-4 |expected| for all entries.
void expectNear(const RowMajorMatrix& got, const RowMajorMatrix& expected);

/// Expects bit-identical matrices.
void expectSame(const RowMajorMatrix& got, const RowMajorMatrix& expected);

/// Expects `call` to throw an Error with `code` whose message starts with `start`.
void expectError(ErrorCode code, const std::string& start, const std::function<void()>& call);

const Parameter& parameter(const std::vector<Parameter>& all, const std::string& name);
RowMajorMatrix read(Module& module, const std::string& name);
void write(Module& module, const std::string& name, const RowMajorMatrix& values);
void zero(Module& module, const std::string& name);

/// Writes rows of integers, value = scales[row] * rows[row, :], to a weight or a parameter whose rows are `width` wide.
template <class Rows>
void writeInt8(Rows& to, Index width, Index first, Index count, const signed char* rows, const float* scales,
               RowCode code = RowCode::kInt8) {
  std::vector<float> row(static_cast<size_t>(width));
  to.writeCoded(first, count, {code, width, reinterpret_cast<const uint8_t*>(rows), scales}, row.data());
}

/// Sets every parameter to uniform draws from [-0.5, 0.5).
void fillRandomly(Module& module, uint64_t seed);

std::vector<std::string> names(Module& module);

}  // namespace heed::test
