/**
 * Every option of every public function, enumerated from the declarations: the function reads it, so that a value
 * without meaning is rejected by a message with the option's name; and the function rejects an option that it does not
 * know. A function or option that is not listed here fails the test.
 */
import * as heedModule from 'heed';
import * as aiSdk from 'heed/ai-sdk';
import * as chroma from 'heed/chroma';
import * as corpus from 'heed/corpus';
import * as draw from 'heed/draw';
import * as evaluation from 'heed/evaluation';
import * as lancedb from 'heed/lancedb';
import * as langchain from 'heed/langchain';
import * as lens from 'heed/lens';
import * as train from 'heed/train';
import * as util from 'heed/util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Optioned, publicOptions } from './api-examples.js';
import { tinyModel } from './models/tiny.js';

// biome-ignore lint/suspicious/noExplicitAny: options of all kinds
type Any = any;
type Call = (options: Any) => unknown;

let heed: Any;
let training: Any;
let model: Any;
let trainable: Any;
let index: Any;
const texts = ['a fox', 'the quick fox'];
const x = [[1, 2]];

beforeAll(async () => {
  heed = await heedModule.load();
  training = await train.load();
  model = await heed.fromPretrained(tinyModel());
  trainable = await training.fromPretrained(tinyModel(), { trainable: true });
  index = await heed.TextIndex.of(model, texts);
});
afterAll(() => {
  for (const each of [model, trainable, heed, training]) each?.dispose();
});

const first = (stream: AsyncGenerator) => stream.next();
const sizes = { embedDim: 4, numHeads: 2, feedForwardDim: 4 };

/** Functions that cannot be called here, and where their options are tested. */
const ELSEWHERE: Record<string, string> = {
  'new index: HeedError': 'the options of Error',
  'index: fromKeras': 'layers/keras.test.ts',
  'index: PretrainedModel.embedImages': 'models/images.test.ts: needs a model of images',
  'index: PretrainedModel.encodeImage': 'models/images.test.ts',
  'index: zeroShotClassify': 'models/tasks.test.ts: needs a model of natural language inference',
  'index: classifyImages': 'models/images.test.ts',
};

const sizeOf = { dim: 4 };
const canvas = {} as never;
const attended = [[[1, 2, 3, 4]]];

/** Properties that are not options: constants of an interface that results implement. */
const CONSTANT = new Set(['modelId', 'specificationVersion']);

/** Options whose messages name the argument of the method to which they are passed. */
const NAMED: Record<string, string> = { clean: 'texts', corrupted: 'texts' };

/** Calls with the given options, and otherwise with values that are accepted, by name. */
const CALLS: Record<string, Call> = {
  'index: clearCache': (o) => heedModule.clearCache(undefined, { cache: 'none', ...o }),
  'index: listCache': (o) => heedModule.listCache(o),
  'index: Operations.sum': (o) => heed.sum(x, o),
  'index: Operations.max': (o) => heed.max(x, o),
  'index: Operations.mean': (o) => heed.mean(x, o),
  'index: Operations.concatenate': (o) => heed.concatenate([x, x], o),
  'index: Operations.slice': (o) => heed.slice(x, { axis: 0, start: 0, end: 1, ...o }),
  'index: flops': (o) => heedModule.flops(10, { ...sizeOf, ...o }),
  'index: Masks.relative': (o) => heed.masks.relative(x, 2, 2, o),
  'index: saveSafetensors': (o) => heedModule.saveSafetensors({}, o),
  'index: loadTokenizer': (o) => heedModule.loadTokenizer(tinyModel(), o),
  'index: PretrainedModel.encode': (o) => model.encode('a', o),
  'index: PretrainedModel.embed': (o) => model.embed('a', o),
  'index: PretrainedModel.embedQuery': (o) => model.embedQuery('a', o),
  'index: PretrainedModel.embedDocument': (o) => model.embedDocument('a', o),
  'index: PretrainedModel.tokenize': (o) => model.tokenize('a', o),
  'index: PretrainedModel.embedTokens': (o) => model.embedTokens('a', o),
  'index: PretrainedModel.embedSparse': (o) => model.embedSparse('a', o),
  'index: PretrainedModel.scoreSpans': (o) => model.scoreSpans('a', ['b'], o),
  'index: PretrainedModel.predict': (o) => model.predict('sequence-classification', 'a', o),
  'index: PretrainedModel.decode': (o) => model.decode([1], o),
  'index: Tokenizer.tokenize': async (o) => (await heedModule.loadTokenizer(tinyModel())).tokenize('a', o),
  'index: Tokenizer.encode': async (o) => (await heedModule.loadTokenizer(tinyModel())).encode('a', o),
  'index: Tokenizer.count': async (o) => (await heedModule.loadTokenizer(tinyModel())).count('a', o),
  'index: Tokenizer.decode': async (o) => (await heedModule.loadTokenizer(tinyModel())).decode([1], o),
  'index: embedStream': (o) => first(heedModule.embedStream(model, texts, o)),
  'index: encodeStream': (o) => first(heedModule.encodeStream(model, texts, o)),
  'index: maxSim': async (o) => heedModule.maxSim([[1]], [[[1]]], o),
  'index: semanticSearch': (o) => heedModule.semanticSearch(x, x, o),
  'index: TextIndex.add': (o) => index.add(['a'], o),
  'index: TextIndex.update': (o) => index.update(0, o as never),
  'index: TextIndex.search': (o) => index.search('a', o),
  'index: TextIndex.searchLatest': (o) => index.searchLatest(() => {}, o)('a'),
  'index: TextIndex.searchAll': (o) => index.searchAll(['a'], o),
  'index: TextIndex.of': (o) =>
    'embedder' in o ? heed.TextIndex.of([], undefined, o) : heed.TextIndex.of(model, texts, o),
  'index: TextIndex.load': async (o) => heed.TextIndex.load(await index.save(), o),
  'index: answerQuestion': (o) => heedModule.answerQuestion(model, 'a', 'the fox', o),
  'index: classify': (o) => heedModule.classify(model, 'a', o),
  'index: classifyTokens': (o) => heedModule.classifyTokens(model, 'a', o),
  'index: extractEntities': (o) => heedModule.extractEntities(model, 'a', ['b'], o),
  'index: fillMask': (o) => heedModule.fillMask(model, 'a [MASK]', o),
  'index: rerank': (o) => heedModule.rerank(model, 'a', texts, o),
  'index: embedLong': (o) => heedModule.embedLong(model, 'a', o),
  'index: splitPassages': (o) => heedModule.splitPassages(model, 'a', o),
  'index: vocabularyCoverage': (o) => heedModule.vocabularyCoverage(model, 'a', o),
  'index: load': (o) => heedModule.load(o),
  'index: Heed.fromPretrained': (o) => heed.fromPretrained(tinyModel(), o),
  'index: Heed.inspect': (o) => heed.inspect(tinyModel(), o),
  'index: Heed.quantize': (o) => heed.quantize(tinyModel(), o),
  'index: Heed.prune': (o) => heed.prune(tinyModel(), { keep: texts, ...o }),
  'index: Heed.quantizeIndex': (o) => heed.quantizeIndex(index, o),
  'index: Heed.attention': (o) => heed.attention(x, x, x, o),
  'index: Heed.softmax': (o) => heed.softmax(x, o),
  'index: Heed.linear': (o) => heed.linear(x, { weight: x, ...o }),
  'index: Heed.layerNorm': (o) => heed.layerNorm(x, o),
  'index: Heed.dropout': (o) => heed.dropout(x, o),
  'index: Heed.positionalEncoding': (o) => heed.positionalEncoding(2, 2, o),
  'index: Heed.rotary': (o) => heed.rotary(x, o),
  'index: pipeline': (o) => heedModule.pipeline('feature-extraction', tinyModel() as never, o),
  'train/index: pipeline': (o) => train.pipeline('feature-extraction', tinyModel() as never, o),
  'train/index: load': (o) => train.load(o),
  'corpus: finishEmbedding': (o) => corpus.finishEmbedding('none', o),
  'corpus: planEmbedding': (o) => corpus.planEmbedding(['none'], { out: 'none', ...o }),
  'corpus: workEmbedding': (o) => corpus.workEmbedding('none', o),
  'draw/index: matrix': (o) => draw.matrix(canvas, x, o),
  'draw/index: attention': (o) => draw.attention(canvas, [x] as never, ['a', 'b'], o),
  'draw/index: grid': (o) => draw.grid(canvas, x, o),
  'draw/index: bars': (o) => draw.bars(canvas, [1, 2], o),
  'draw/index: curves': (o) => draw.curves(canvas, { a: [1, 2] } as never, o),
  'draw/index: links': (o) => draw.links(canvas, x, ['a', 'b'] as never, o),
  'lens/index: attribute': (o) => lens.attribute(trainable, 'a', { metric: () => 0, ...o } as never),
  'lens/index: logitLens': (o) => lens.logitLens(model, 'a', o),
  'lens/index: patchGrid': (o) => lens.patchGrid(model, { clean: 'a', corrupted: 'x', metric: () => 0, ...o }),
  'lens/index: rollout': (o) => lens.rollout(model, 'a', o),
  'util/index: communityDetection': (o) => util.communityDetection(x, o),
  'util/index: kMeans': (o) => util.kMeans(x, { numClusters: 1, ...o }),
  'util/index: deduplicate': (o) => util.deduplicate(x, o),
  'util/index: mineHardNegatives': (o) => util.mineHardNegatives(x, x, { positives: [0], ...o }),
  'util/index: paraphraseMining': (o) => util.paraphraseMining(x, o),
  'util/index: windows': (o) => util.windows([1, 2, 3], { length: 1, ...o }),
  'evaluation/index: evaluateClassifier': (o) => evaluation.evaluateClassifier(model, [{ text: 'a', label: 'fox' }], o),
  'evaluation/index: evaluateInformationRetrieval': (o) =>
    evaluation.evaluateInformationRetrieval(
      model,
      { queries: { q: 'a' }, corpus: { d: 'a fox' }, relevantDocs: { q: ['d'] } },
      o,
    ),
  'evaluation/index: informationRetrievalMetrics': (o) => evaluation.informationRetrievalMetrics([['a']], [['a']], o),
  'evaluation/index: evaluateEmbeddingSimilarity': (o) =>
    evaluation.evaluateEmbeddingSimilarity(
      model,
      [
        { a: 'a', b: 'x', score: 1 },
        { a: 'a', b: 'fox', score: 0 },
      ],
      o,
    ),
  'evaluation/index: giniCoefficient': (o) => evaluation.giniCoefficient([1, 2], [1, 1], o),
  'evaluation/index: rocAucScore': (o) => evaluation.rocAucScore([1, 0], [1, 1], o),
  'evaluation/index: d2GammaScore': (o) => evaluation.d2GammaScore([1, 2], [1, 1], o),
  'evaluation/index: d2PoissonScore': (o) => evaluation.d2PoissonScore([1, 2], [1, 1], o),
  'evaluation/index: meanAbsoluteError': (o) => evaluation.meanAbsoluteError([1, 2], [1, 1], o),
  'evaluation/index: meanGammaDeviance': (o) => evaluation.meanGammaDeviance([1, 2], [1, 1], o),
  'evaluation/index: meanPoissonDeviance': (o) => evaluation.meanPoissonDeviance([1, 2], [1, 1], o),
  'evaluation/index: meanSquaredError': (o) => evaluation.meanSquaredError([1, 2], [1, 1], o),
  'evaluation/index: r2Score': (o) => evaluation.r2Score([1, 2], [1, 1], o),
  'evaluation/index: rootMeanSquaredError': (o) => evaluation.rootMeanSquaredError([1, 2], [1, 1], o),
  'adapters/ai-sdk: embeddingModel': (o) => aiSdk.embeddingModel(model, o),
  'adapters/ai-sdk: rerankingModel': (o) => aiSdk.rerankingModel(model, o),
  'adapters/langchain: embeddings': (o) => langchain.embeddings(model, o),
  'adapters/langchain: reranker': (o) => langchain.reranker(model, o),
  'adapters/chroma: embeddingFunction': (o) => chroma.embeddingFunction(model, o),
  'adapters/lancedb: embeddingFunction': (o) => lancedb.embeddingFunction(class {} as never, model, o),
};

const REQUIRED: Record<string, object> = {
  Conv1D: { inChannels: 2, outChannels: 2, kernelSize: 1 },
  Embedding: { numEmbeddings: 4, embedDim: 4 },
  Linear: { inFeatures: 4, outFeatures: 4 },
  Dropout: { p: 0.5 },
  BatchNorm: { numFeatures: 4 },
  LayerNorm: { normalizedShape: 4 },
  RMSNorm: { normalizedShape: 4 },
  PositionalEncoding: { embedDim: 4, maxLength: 8 },
  GRU: { inputSize: 4, hiddenSize: 4 },
  LSTM: { inputSize: 4, hiddenSize: 4 },
  FeedForward: { embedDim: 4, feedForwardDim: 4 },
  MultiHeadAttention: { embedDim: 4, numHeads: 2 },
  Encoder: { ...{ embedDim: 4, numHeads: 2, feedForwardDim: 4 }, numLayers: 1 },
  Decoder: { ...{ embedDim: 4, numHeads: 2, feedForwardDim: 4 }, numLayers: 1 },
  EncoderLayer: { embedDim: 4, numHeads: 2, feedForwardDim: 4 },
  DecoderLayer: { embedDim: 4, numHeads: 2, feedForwardDim: 4 },
  Transformer: { ...{ embedDim: 4, numHeads: 2, feedForwardDim: 4 }, numEncoderLayers: 1, numDecoderLayers: 1 },
};
const layer = (name: string, options = {}) => new heed[name]({ ...(REQUIRED[name] ?? sizes), ...options });

/** Layers and losses, whose calls are alike. */
function callOf(name: string): Call | undefined {
  const [, isNew, type = '', method] = /^(new )?(?:train\/)?index: (\w+)(?:\.(\w+))?$/.exec(name) ?? [];
  if (isNew && type === 'Sequential') return (o) => new training.Sequential([], o);
  if (isNew && type in REQUIRED) return (o) => layer(type, o);
  if (method === 'flops') return (o) => layer(type in REQUIRED ? type : 'Linear').flops(4, o);
  if (method === 'makeCache') return (o) => layer(type).makeCache(attended, o);
  if (method === 'forward' && type === 'MultiHeadAttention') return (o) => layer(type).forward(attended, o);
  if (method === 'forward' && type in REQUIRED)
    return (o) =>
      ['Decoder', 'DecoderLayer', 'Transformer'].includes(type)
        ? layer(type).forward(attended, attended, o)
        : layer(type).forward(attended, o);
  const trained = () => new training.Sequential([new training.Linear({ inFeatures: 2, outFeatures: 2 })]).train();
  const data = { inputs: x, labels: [0] };
  if (type === 'Losses' && method)
    return (o) => {
      const output = trained().forward(x);
      const three = ['gaussian', 'cosineEmbedding', 'coSENT'].includes(method);
      if (method === 'triplet') return training.losses.triplet(output, output, output, o);
      if (method === 'infoNCE') return training.losses.infoNCE(output, output, o);
      const labels = ['crossEntropy', 'supervisedContrastive', 'cosineEmbedding'].includes(method) ? [1] : x;
      return three ? training.losses[method](output, output, labels, o) : training.losses[method](output, labels, o);
    };
  if (type === 'Schedules' && method)
    return (o) => {
      const optimizer = new training.optim.SGD(trained().parameters(), { lr: 1 });
      const needed = {
        linear: { warmup: 1, steps: 9 },
        cosine: { warmup: 1, steps: 9 },
        constant: { warmup: 1 },
        noam: { embedDim: 4, warmup: 1 },
      };
      return training.optim.schedules[method](optimizer, { ...needed[method as 'linear'], ...o });
    };
  if (type === 'Sequential' || type === 'Module') {
    if (method === 'forward') return (o) => trained().forward(x, o);
    if (method === 'evaluate') return (o) => trained().evaluate(data, o);
    if (method === 'predict') return (o) => trained().predict(x, o);
    if (method === 'fit')
      return (o) => {
        const net = trained();
        return net.fit(data, {
          loss: 'crossEntropy',
          optimizer: new training.optim.SGD(net.parameters(), { lr: 1 }),
          ...o,
        });
      };
  }
  return undefined;
}

/** The error of a call; null if it accepts the options. */
async function errorOf(call: Call, options: object): Promise<Error | null> {
  try {
    await call(options);
    return null;
  } catch (error) {
    return error as Error;
  }
}

/** A value that no option takes. */
const INVALID = Symbol('invalid');

const all = publicOptions();

test('every function with options is listed', () => {
  const listed = ({ name }: Optioned) => name in ELSEWHERE || name in CALLS || callOf(name) !== undefined;
  expect(all.length).toBeGreaterThan(140);
  expect(all.filter((each) => !listed(each)).map(({ name }) => name)).toEqual([]);
  const names = all.map(({ name }) => name);
  expect([...Object.keys(ELSEWHERE), ...Object.keys(CALLS)].filter((name) => !names.includes(name))).toEqual([]);
});

test.each(all.filter(({ name }) => !(name in ELSEWHERE)))('$name', async ({ name, options }) => {
  const call = CALLS[name] ?? callOf(name)!;
  const ignored: string[] = [];
  for (const option of options) {
    if (CONSTANT.has(option)) continue;
    const error = await errorOf(call, { [option]: INVALID });
    if (!(error?.name === 'HeedError' && error.message.includes(NAMED[option] ?? option)))
      ignored.push(`${option}: ${error?.message}`);
  }
  expect(ignored).toEqual([]);
  expect(await errorOf(call, { noSuchOption: 1 })).toMatchObject({
    name: 'HeedError',
    message: expect.stringContaining("unknown option 'noSuchOption'"),
  });
});
