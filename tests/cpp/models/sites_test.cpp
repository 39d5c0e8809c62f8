#include "heed/sites.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "heed/encoder_model.h"
#include "support.h"

namespace heed {
namespace {

using namespace test;

constexpr Index kLayers = 2, kEmbed = 12, kHeads = 3, kFeed = 20;

constexpr std::array kAllSites = {Site::kInput,  Site::kQueries,     Site::kKeys,  Site::kValues,
                                  Site::kScores, Site::kWeights,     Site::kHeads, Site::kAttention,
                                  Site::kHidden, Site::kFeedForward, Site::kOutput};

/// Stores the values that it reads.
class Recorder final : public Sites {
 public:
  using Sites::Sites;
  std::map<std::pair<Index, Site>, RowMajorMatrix> values;
  std::function<void(std::vector<float>&)> mapping;

 private:
  void read(Index layer, Site site, ConstMatrixView all) override { values[{layer, site}] = all; }
  void map(size_t, std::vector<float>& selection) override { mapping(selection); }
};

std::vector<EncoderModelConfig> siteArchitectures() {
  EncoderModelConfig post{};
  post.vocab_size = 11;
  post.layer.embed_dim = kEmbed;
  post.num_layers = kLayers;
  post.layer.attention.num_heads = kHeads;
  post.layer.feed_forward.feed_forward_dim = kFeed;
  post.max_positions = 12;
  EncoderModelConfig pre = post;
  pre.layer.norm_first = pre.final_norm = pre.layer.feed_forward.gated = pre.layer.output_norms =
      pre.layer.layer_scale = true;
  pre.positions = Positions::kRotary;
  pre.rotary_dim = 4;
  pre.window = 1;
  pre.local_layers = {true, false};
  EncoderModelConfig disentangled = post;
  disentangled.positions = Positions::kDisentangled;
  disentangled.relative_buckets = 4;
  disentangled.relative_distance = 12;
  disentangled.convolution = 3;
  EncoderModelConfig causal = post;
  causal.causal = true;
  causal.positions = Positions::kAlibi;
  causal.layer.nested_norm = causal.layer.attention.joint_qk_norm = true;
  EncoderModelConfig int8 = post;
  int8.layer.precision = Precision::kInt8;
  return {post, pre, disentangled, causal, int8};
}

const Sequences& twoTexts() {
  static const Sequences sequences = Sequences::ofLengths({4, 3});
  return sequences;
}

RowMajorMatrix runWith(EncoderModel& model, Sites* sites, std::vector<float>* weights = nullptr) {
  const TokenBatch batch{.ids = {1, 2, 3, 4, 5, 6, 7}, .token_types = {}, .positions = {}, .sequences = twoTexts()};
  Context context;
  InferenceEvaluator e(context, sites);
  Value x = model.embed(e, batch);
  const PassInputs inputs = model.inputs(e, batch.sequences, x);
  for (Index i = 0; i < model.numLayers(); ++i) {
    float* of_layer = nullptr;
    if (weights && i == 0) {
      weights->resize(static_cast<size_t>(attentionWeightsSize(kHeads, twoTexts(), twoTexts())));
      of_layer = weights->data();
    }
    x = model.runLayer(e, i, x, batch.sequences, inputs, {}, of_layer);
  }
  return model.applyFinalNorm(e, x).values();
}

/// An edit of all values by a number.
SiteEdit byNumber(Index layer, Site site, SiteEdit::Verb verb, float number) {
  SiteEdit edit{layer, site, verb};
  edit.operand = {number};
  return edit;
}

SiteEdit mapOf(Index layer, Site site, std::array<Index, 4> extents) {
  SiteEdit edit{layer, site, SiteEdit::Verb::kMap};
  edit.extents = extents;
  return edit;
}

TEST(Sites, ReadingAndIdentityEditsChangeNoBit) {
  for (const EncoderModelConfig& config : siteArchitectures()) {
    EncoderModel model(config);
    fillRandomly(model, 3);
    const RowMajorMatrix expected = runWith(model, nullptr);
    for (const bool edits : {false, true}) {
      Recorder sites(twoTexts(), twoTexts());
      sites.mapping = [](std::vector<float>&) {};
      for (Index layer = 0; layer < kLayers; ++layer) {
        for (const Site site : kAllSites) {
          sites.addRead(layer, site);
          if (!edits) continue;
          const bool matrix = site == Site::kScores || site == Site::kWeights;
          sites.addEdit(mapOf(layer, site, {2, kHeads, 4, matrix ? 4 : kFeed}));
        }
      }
      sites.addRead(kLayers, Site::kOutput);
      expectSame(runWith(model, &sites), expected);
      EXPECT_EQ(sites.values.size(), kLayers * kAllSites.size() + 1);
      expectSame(sites.values.at({kLayers, Site::kOutput}), expected);
    }
  }
}

TEST(Sites, WeightsAreTheSoftmaxOfScores) {
  EncoderModel model(siteArchitectures()[0]);
  fillRandomly(model, 3);
  Recorder sites(twoTexts(), twoTexts());
  for (const Site site : {Site::kScores, Site::kWeights, Site::kHeads, Site::kValues}) sites.addRead(0, site);
  std::vector<float> weights;
  runWith(model, &sites, &weights);
  const RowMajorMatrix &scores = sites.values.at({0, Site::kScores}), &read = sites.values.at({0, Site::kWeights});
  EXPECT_EQ(read, RowMajorMatrix(view(static_cast<const float*>(weights.data()), 1, read.cols())));
  for (Index at = 0, n = 0; n < 2; ++n) {
    const Index length = twoTexts().length(n);
    for (Index row = 0; row < kHeads * length; ++row, at += length) {
      const auto shifted = scores.row(0).segment(at, length).array() - scores.row(0).segment(at, length).maxCoeff();
      expectNear(read.row(0).segment(at, length), shifted.exp() / shifted.exp().sum());
    }
  }
}

TEST(Sites, ScalingHeadsByZeroIsTheHeadMask) {
  for (const EncoderModelConfig& config : siteArchitectures()) {
    EncoderModel model(config);
    fillRandomly(model, 4);
    const TokenBatch batch{.ids = {1, 2, 3, 4, 5, 6, 7}, .token_types = {}, .positions = {}, .sequences = twoTexts()};
    const auto run = [&](Sites* sites, const Value& mask) -> RowMajorMatrix {
      Context context;
      InferenceEvaluator e(context, sites);
      const Value x = model.embed(e, batch);
      return model.runLayer(e, 0, x, batch.sequences, model.inputs(e, batch.sequences, x), mask).values();
    };
    Recorder sites(twoTexts(), twoTexts());
    SiteEdit edit = byNumber(0, Site::kHeads, SiteEdit::Verb::kScale, 0);
    edit.selected[1] = {-1, 0, -1};
    sites.addEdit(edit);
    const RowMajorMatrix mask = matrix({{1, 0, 1}});
    expectSame(run(&sites, {}), run(nullptr, valueOf(mask)));
  }
}

TEST(Sites, UniformWeightsGiveTheMeanOfValues) {
  EncoderModel model(siteArchitectures()[0]);
  fillRandomly(model, 5);
  Recorder sites(twoTexts(), twoTexts());
  SiteEdit edit = byNumber(0, Site::kWeights, SiteEdit::Verb::kSet, 0.25f);
  edit.selected[0] = {0, -1};
  edit.selected[1] = {-1, 0, -1};
  sites.addEdit(edit);
  sites.addRead(0, Site::kValues);
  sites.addRead(0, Site::kHeads);
  runWith(model, &sites);
  const RowMajorMatrix mean = sites.values.at({0, Site::kValues}).block(0, 4, 4, 4).colwise().mean();
  for (Index i = 0; i < 4; ++i) expectNear(sites.values.at({0, Site::kHeads}).block(i, 4, 1, 4), mean);
}

TEST(Sites, MaskedKeysStayMaskedWhateverTheirScores) {
  EncoderModelConfig config = siteArchitectures()[3];  // causal
  EncoderModel model(config);
  fillRandomly(model, 6);
  Recorder sites(twoTexts(), twoTexts());
  sites.addEdit(byNumber(0, Site::kScores, SiteEdit::Verb::kSet, 2));
  sites.addRead(0, Site::kWeights);
  runWith(model, &sites);
  const RowMajorMatrix& weights = sites.values.at({0, Site::kWeights});
  for (Index i = 0; i < 4; ++i) {
    for (Index j = 0; j < 4; ++j) EXPECT_FLOAT_EQ(weights(0, 4 * i + j), j <= i ? 1 / static_cast<float>(i + 1) : 0);
  }
}

TEST(Sites, SelectionsOperandsAndColumns) {
  const Sequences sequences = Sequences::ofLengths({2, 3});
  RowMajorMatrix x = RowMajorMatrix::Zero(5, 4);  // two heads of width 2
  // The second text's tokens are in columns 1 to 3.
  Recorder sites(sequences, sequences, {0, 1, 1, 2, 3});
  SiteEdit edit{0, Site::kQueries, SiteEdit::Verb::kAdd};
  edit.selected = {std::vector<Index>{1, 0}, {-1, 0}, {-1, 1, -1, 0}, {}};
  edit.operand = {1, 2, 3, 4, 5, 6, 7, 8};  // (2 texts, 1 head, 2 positions, 2 features)
  edit.strides = {4, 0, 2, 1};
  sites.addEdit(edit);
  sites.at(Site::kQueries, window(x), 2);
  expectSame(x, matrix({{0, 0, 0, 0}, {0, 0, 7, 8}, {0, 0, 3, 4}, {0, 0, 0, 0}, {0, 0, 1, 2}}));
}

TEST(Sites, MeansAreOverAllRows) {
  const Sequences sequences = Sequences::ofLengths({1, 3});
  RowMajorMatrix x = matrix({{1, 10}, {2, 20}, {3, 30}, {6, 60}});
  Recorder sites(sequences, sequences);
  SiteEdit edit{0, Site::kOutput, SiteEdit::Verb::kMean};
  edit.selected[0] = {-1, 0};
  edit.selected[2] = {0, -1, -1};
  sites.addEdit(edit);
  sites.at(Site::kOutput, window(x), 1);
  expectSame(x, matrix({{1, 10}, {3, 30}, {3, 30}, {6, 60}}));
}

TEST(Sites, MapsGetZerosAsPadding) {
  const Sequences sequences = Sequences::ofLengths({1, 2});
  RowMajorMatrix x = matrix({{1}, {2}, {3}});
  Recorder sites(sequences, sequences);
  sites.addEdit(mapOf(0, Site::kOutput, {2, 1, 2, 1}));
  sites.mapping = [](std::vector<float>& selection) {
    EXPECT_EQ(selection, (std::vector<float>{1, 0, 2, 3}));
    for (float& value : selection) value += 10;
  };
  sites.at(Site::kOutput, window(x), 1);
  expectSame(x, matrix({{11}, {12}, {13}}));
}

TEST(Sites, RefuseEditsThatDoNotFit) {
  using enum ErrorCode;
  const Sequences sequences = Sequences::ofLengths({1, 2});
  const auto apply = [&](const SiteEdit& edit) {
    RowMajorMatrix x = RowMajorMatrix::Ones(3, 4);  // two heads of width 2
    Recorder sites(sequences, sequences);
    sites.mapping = [](std::vector<float>&) {};
    sites.addEdit(edit);
    sites.at(Site::kQueries, window(x), 2);
  };
  SiteEdit edit{0, Site::kQueries, SiteEdit::Verb::kAdd};
  edit.operand.resize(16);
  edit.strides = {8, 4, 2, 1};
  apply(edit);
  edit.operand.pop_back();
  expectError(kShapeMismatch, "edit: expected one value per selected entry, got 15 values", [&] { apply(edit); });
  edit.selected[0] = {0, -1};  // with only the first text selected, half of them are enough
  apply(edit);
  edit.selected[0] = {-1, 2};
  expectError(kShapeMismatch, "edit:", [&] { apply(edit); });
  edit.selected[0] = {-1, -1};
  apply(edit);
  edit.selected[0] = {0, -1};
  edit.strides[3] = -1;
  expectError(kInvalidArgument, "edit: expected strides >= 0, got -1", [&] { apply(edit); });
  for (size_t axis = 0; axis < 4; ++axis) {
    SiteEdit map = mapOf(0, Site::kQueries, {2, 2, 2, 2});
    apply(map);
    --map.extents[axis];
    expectError(kShapeMismatch, "edit:", [&] { apply(map); });
  }
  expectError(kShapeMismatch, "columns: expected [3], got shape [2]",
              [&] { Recorder sites(sequences, sequences, {0, 1}); });
  expectError(kInvalidArgument, "columns:", [&] { Recorder sites(sequences, sequences, {0, -1, 1}); });
}

// A call from the callback of another one replaces tables that the outer call uses.
TEST(Sites, CallsWithinCallsChangeNoBit) {
  for (const EncoderModelConfig& config : siteArchitectures()) {
    EncoderModel model(config);
    fillRandomly(model, 3);
    const RowMajorMatrix expected = runWith(model, nullptr);
    fillRandomly(model, 3);  // discards cached values that were derived from the parameters
    Context inner_context;
    const Sequences longer = Sequences::ofLengths({9});
    const TokenBatch batch{.ids = {1, 2, 3, 4, 5, 6, 7, 8, 9}, .token_types = {}, .positions = {}, .sequences = longer};
    Recorder sites(twoTexts(), twoTexts());
    sites.mapping = [&](std::vector<float>&) {
      InferenceEvaluator e(inner_context);
      Value x = model.embed(e, batch);
      const PassInputs inputs = model.inputs(e, longer, x);
      for (Index i = 0; i < kLayers; ++i) x = model.runLayer(e, i, x, longer, inputs);
    };
    for (Index layer = 0; layer < kLayers; ++layer) {
      for (const Site site : kAllSites) {
        const bool matrix = site == Site::kScores || site == Site::kWeights;
        sites.addEdit(mapOf(layer, site, {2, kHeads, 4, matrix ? 4 : kFeed}));
      }
    }
    expectSame(runWith(model, &sites), expected);
  }
}

TEST(Sites, NanStaysInItsText) {
  for (const EncoderModelConfig& config : siteArchitectures()) {
    EncoderModel model(config);
    fillRandomly(model, 7);
    const RowMajorMatrix expected = runWith(model, nullptr);
    for (const Site site : kAllSites) {
      Recorder sites(twoTexts(), twoTexts());
      SiteEdit edit = byNumber(0, site, SiteEdit::Verb::kSet, std::nanf(""));
      edit.selected[0] = {0, -1};
      sites.addEdit(edit);
      const RowMajorMatrix got = runWith(model, &sites);
      EXPECT_TRUE(got.topRows(4).array().isNaN().any()) << static_cast<int>(site);
      expectSame(got.bottomRows(3), expected.bottomRows(3));
    }
  }
}

}  // namespace
}  // namespace heed
