#include "support.h"

#include <cmath>
#include <stdexcept>

namespace heed::test {

RowMajorMatrix randomMatrix(Index rows, Index columns, uint64_t seed) {
  Generator generator(seed);
  RowMajorMatrix m(rows, columns);
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = 2 * generator.uniform() - 1;
  return m;
}

RowMajorMatrix matrix(std::initializer_list<std::initializer_list<float>> rows) {
  RowMajorMatrix m(static_cast<Index>(rows.size()), static_cast<Index>(rows.begin()->size()));
  Index i = 0;
  for (const auto& row : rows) {
    for (const float x : row) m.data()[i++] = x;
  }
  return m;
}

void expectNear(const RowMajorMatrix& got, const RowMajorMatrix& expected) {
  ASSERT_EQ(got.rows(), expected.rows());
  ASSERT_EQ(got.cols(), expected.cols());
  for (Index i = 0; i < got.rows(); ++i) {
    for (Index j = 0; j < got.cols(); ++j) {
      ASSERT_NEAR(got(i, j), expected(i, j), 1e-5 + 1e-4 * std::abs(expected(i, j))) << "at " << i << ", " << j;
    }
  }
}

void expectSame(const RowMajorMatrix& got, const RowMajorMatrix& expected) {
  ASSERT_EQ(got.rows(), expected.rows());
  ASSERT_EQ(got.cols(), expected.cols());
  for (Index i = 0; i < got.rows(); ++i) {
    for (Index j = 0; j < got.cols(); ++j) ASSERT_EQ(got(i, j), expected(i, j)) << "at " << i << ", " << j;
  }
}

void expectError(ErrorCode code, const std::string& start, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "no error; expected " << start;
  } catch (const Error& error) {
    EXPECT_EQ(errorCodeName(error.code()), std::string(errorCodeName(code))) << error.what();
    EXPECT_EQ(std::string(error.what()).substr(0, start.size()), start);
  }
}

const Parameter& parameter(const std::vector<Parameter>& all, const std::string& name) {
  for (const Parameter& p : all) {
    if (p.name == name) return p;
  }
  throw std::out_of_range("no parameter " + name);
}

RowMajorMatrix read(Module& module, const std::string& name) {
  const std::vector<Parameter> all = module.parameters();
  const Parameter& p = parameter(all, name);
  RowMajorMatrix m(p.shape[0], p.shape.size() / p.shape[0]);
  p.read(0, p.shape[0], m.data());
  return m;
}

void write(Module& module, const std::string& name, const RowMajorMatrix& values) {
  const std::vector<Parameter> all = module.parameters();
  const Parameter& p = parameter(all, name);
  ASSERT_EQ(p.shape.size(), values.size());
  p.write(0, p.shape[0], values.data());
}

void zero(Module& module, const std::string& name) {
  RowMajorMatrix values = read(module, name);
  write(module, name, RowMajorMatrix::Zero(values.rows(), values.cols()));
}

void fillRandomly(Module& module, uint64_t seed) {
  for (const Parameter& p : module.parameters()) {
    const RowMajorMatrix values = 0.5f * randomMatrix(1, p.shape.size(), seed++);
    p.write(0, p.shape[0], values.data());
  }
}

std::vector<std::string> names(Module& module) {
  std::vector<std::string> all;
  for (const Parameter& p : module.parameters()) all.push_back(p.name + " " + p.shape.toString());
  return all;
}

}  // namespace heed::test
