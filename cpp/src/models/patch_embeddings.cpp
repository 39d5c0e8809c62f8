#include "models/patch_embeddings.h"

#include <array>
#include <numeric>

#include "core/check.h"

namespace heed {
namespace {

/// Rows [first, first + count) of a table of width `width`.
Value tableRows(Evaluator& e, const float* table, Index width, Index first, Index count) {
  auto* rows = e.context().arena.take<Index>(count);
  std::iota(rows, rows + count, first);
  const TableRows all{nullptr, table, {rows, static_cast<size_t>(count)}};
  return e.lookUp({&all, 1}, width);
}

/// Copies the pixels of one image's patches to `patches` (patches, 3 P P), in the order of torch.nn.Conv2d's weight.
void gatherPatches(const ImageInput& image, const float* pixels, Index side, MatrixView patches) {
  const Index columns = image.width / side;
  for (Index i = 0; i < patches.rows(); ++i) {
    const float* corner = pixels + i / columns * side * image.width + i % columns * side;
    float* to = patches.data() + i * patches.outerStride();
    for (Index channel = 0; channel < 3; ++channel) {
      for (Index y = 0; y < side; ++y) to = std::copy_n(corner + (channel * image.height + y) * image.width, side, to);
    }
  }
}

}  // namespace

EncoderModel::PatchEmbeddings::PatchEmbeddings(const EncoderModelConfig& config)
    : width_(config.layer.embed_dim),
      side_(config.patch_size),
      patch_({.in_features = 3 * config.patch_size * config.patch_size, .out_features = config.layer.embed_dim}) {
  if (config.class_row) allocate("embeddings.class.weight", {1, width_}, class_);
  allocate("embeddings.registers.weight", {config.registers, width_}, registers_);
  if (config.positions == Positions::kAbsolute)
    allocate("embeddings.position.weight", {config.max_positions - config.registers, width_}, position_);
  if (config.embedding_norm) norm_.emplace(config.layer.norm);
}

Index EncoderModel::PatchEmbeddings::rows(Index height, Index width) const {
  requireAtLeast("images", std::min(height, width), side_);
  return (class_.empty() ? 0 : 1) + static_cast<Index>(registers_.size()) / width_ + (height / side_) * (width / side_);
}

Value EncoderModel::PatchEmbeddings::forward(Evaluator& e, const ImageInput& image) const {
  const Index rows_of_image = rows(image.height, image.width);
  MatrixView all = e.context().arena.matrix(image.count * rows_of_image, width_);
  for (Index n = 0; n < image.count; ++n) {
    const Arena::Scope scope(e.context().arena);
    const Value x = embed(e, image, image.pixels + 3 * n * image.height * image.width);
    all.middleRows(n * rows_of_image, rows_of_image) = x.values();
  }
  return all;
}

Value EncoderModel::PatchEmbeddings::embed(Evaluator& e, const ImageInput& image, const float* pixels) const {
  const Index count = (image.height / side_) * (image.width / side_), first = class_.empty() ? 0 : 1;
  const float* positions = image.positions ? image.positions.data() : position_.data();
  const bool has_positions = !position_.empty();
  if (has_positions) {
    const Index rows = image.positions ? image.positions.rows() : static_cast<Index>(position_.size()) / width_;
    requireShape("positions", {rows, image.positions ? image.positions.cols() : width_}, {first + count, width_});
  }
  const MatrixView patches = e.context().arena.matrix(count, 3 * side_ * side_);
  gatherPatches(image, pixels, side_, patches);
  Value x = patch_.forward(e, patches);
  if (has_positions) x = e.add(x, tableRows(e, positions, width_, first, count));
  if (const auto registers = static_cast<Index>(registers_.size()) / width_; registers > 0)
    x = e.concatenateRows(std::array{tableRows(e, registers_.data(), width_, 0, registers), x});
  if (first > 0) {
    Value row = tableRows(e, class_.data(), width_, 0, 1);
    if (has_positions) row = e.add(row, tableRows(e, positions, width_, 0, 1));
    x = e.concatenateRows(std::array{row, x});
  }
  return norm_ ? e.normalize(*norm_, x, true) : x;
}

std::vector<Module::Child> EncoderModel::PatchEmbeddings::children() {
  std::vector<Child> all;
  if (norm_) all.push_back({"norm", &*norm_});
  return all;
}

std::vector<Parameter> EncoderModel::PatchEmbeddings::ownParameters() {
  std::vector<Parameter> own = patch_.ownParameters();
  own[0].shape = {width_, 3, side_, side_};
  for (Parameter& parameter : own) parameter.name = "patch." + parameter.name;
  const auto add = [&](const char* name, std::vector<float>& table) {
    if (table.empty()) return;
    own.push_back(plainParameter(name, {static_cast<Index>(table.size()) / width_, width_}, table.data(),
                                 ParameterKind::kWeight, InitialValue::normal()));
  };
  add("class.weight", class_);
  add("registers.weight", registers_);
  add("position.weight", position_);
  return own;
}

}  // namespace heed
