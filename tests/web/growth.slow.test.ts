/**
 * Time and memory grow in proportion to the input: every public function, method and command gets 50,000 and 200,000 of what it
 * takes. What grows with the square of that would take sixteen times as long, or 40 GB.
 *
 * CPU time is measured, and the smallest of up to three runs counts, so that other work on the machine does not matter.
 */
import * as heedIndex from 'heed';
import { load, loadTokenizer, type ModelSource } from 'heed';
import {
  classificationMetrics,
  d2GammaScore,
  d2PoissonScore,
  embeddingSimilarityMetrics,
  giniCoefficient,
  informationRetrievalMetrics,
  meanAbsoluteError,
  meanGammaDeviance,
  meanPoissonDeviance,
  meanSquaredError,
  r2Score,
  rocAucScore,
  rootMeanSquaredError,
} from 'heed/evaluation';
import { load as loadTraining } from 'heed/train';
import * as util from 'heed/util';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../web/src/io/safetensors.js';
import { layers } from '../../web/src/layers/classes.js';
import { publicItems } from './api-examples.js';
import { expectLinear } from './linear-growth.js';
import { onnxFile, tensorsOf } from './models/onnx-writer.js';
import { tinyModel } from './models/tiny.js';

const heed = await load();
const training = await loadTraining();
const tiny = tinyModel();
const model = await heed.fromPretrained(tiny);

/** A model of 24 token vectors, which embeds a text in a microsecond. */
const tokens = { name: 'embeddings', dtype: 'F32' as const, shape: [24, 4], data: new Float32Array(96).fill(0.5) };
const staticFiles = {
  'config.json': JSON.stringify({ model_type: 'model2vec', hidden_dim: 4, normalize: true, seq_length: 1000000 }),
  'model.safetensors': writeSafetensors([tokens]),
  'tokenizer.json': tiny['tokenizer.json']!,
};
const quick = await heed.fromPretrained(staticFiles);
const taught = await training.fromPretrained(tinyModel() as ModelSource);
const tokenizer = await loadTokenizer(tiny);

/** `n` values. */
const list = <T>(n: number, value: (i: number) => T): T[] => Array.from({ length: n }, (_, i) => value(i));
const words = ['the', 'quick', 'brown', 'fox', 'x', 'y'];
const texts = (n: number) => list(n, (i) => `${words[i % 6]} ${words[(i >> 3) % 6]} ${i % 10}`);
const ids = (n: number) => list(n, (i) => i);
const numbers = (n: number) => list(n, (i) => ((i * 7919) % 1000) / 1000 + 0.001);
const labels = (n: number) => list(n, (i) => `label ${i % 2}`);
const vectors = (n: number, width = 4) => ({
  data: Float32Array.from({ length: n * width }, (_, i) => Math.sin(i)),
  shape: [n, width],
});
const indexOf = (n: number) => heed.TextIndex.of(texts(n), vectors(n));

/** Prepares a call with `n` things, which is then measured. */
type Prepare = (n: number) => () => unknown;

const examples = (n: number) => list(n, (i) => ({ text: `${words[i % 6]} ${i % 10}`, label: `label ${i % 2}` }));

/** Calls, by the name of what they call, with what grows in parentheses. */
const calls: Record<string, Prepare> = {
  'index: Tensor.toArray': (n) => {
    const tensor = heed.softmax(vectors(n));
    return () => tensor.toArray();
  },
  'index: Operations.add (nested arrays)': (n) => {
    const rows = list(n, (i) => [i, 1]);
    return () => heed.add(rows, 1);
  },
  'index: Operations.concatenate': (n) => {
    const parts = list(n, (i) => [i]);
    return () => heed.concatenate(parts as never);
  },
  'index: Heed.softmax (rows)': (n) => () => heed.softmax(vectors(n)),
  'index: Heed.softmax (classes)': (n) => () => heed.softmax(vectors(1, n)),
  'index: Heed.attention (sequences)': (n) => {
    const x = { data: new Float32Array(2 * n), shape: [n, 1, 2] };
    return () => heed.attention(x, x, x);
  },
  'index: Heed.rotary': (n) => {
    const x = { data: new Float32Array(4 * n), shape: [n, 4] };
    return () => heed.rotary(x);
  },
  'index: Heed.positionalEncoding': (n) => () => heed.positionalEncoding(n, 4),
  'index: Masks.padding': (n) => {
    const lengths = list(n, (i) => i % 3);
    return () => heed.masks.padding(lengths, 2);
  },
  'index: Masks.alibi': (n) => () => heed.masks.alibi(n, 1, 1),
  'index: maxSim (documents)': (n) => {
    const documents = list(n, () => vectors(1));
    return () => heedIndex.maxSim(vectors(2), documents);
  },
  'index: maxSim (tokens)': (n) => () => heedIndex.maxSim(vectors(2), [vectors(n)]),
  'index: sparseDot': (n) => {
    const sparse = { indices: Int32Array.from(ids(n)), values: new Float32Array(n) };
    return () => heedIndex.sparseDot(sparse, sparse);
  },
  'index: similarity': (n) => () => heedIndex.similarity(vectors(n), vectors(2)),
  'index: semanticSearch (queries)': (n) => () => heedIndex.semanticSearch(vectors(n), vectors(3), { topK: 1 }),
  'index: semanticSearch (topK)': (n) => () => heedIndex.semanticSearch(vectors(1), vectors(n), { topK: n }),
  'index: saveSafetensors': (n) => {
    const state = Object.fromEntries(list(n, (i) => [`t${i}`, [i]]));
    return () => heedIndex.saveSafetensors(state);
  },
  'index: loadSafetensors': (n) => {
    const bytes = heedIndex.saveSafetensors(Object.fromEntries(list(n, (i) => [`t${i}`, [i]])));
    return () => heedIndex.loadSafetensors(bytes);
  },
  // Texts are cut to the model's limit, but read whole.
  'index: Tokenizer.encode (words)': (n) => {
    const text = texts(n).join(' ');
    return () => tokenizer.encode(text);
  },
  'index: Tokenizer.encode (one word)': (n) => {
    const text = 'a'.repeat(n);
    return () => tokenizer.encode(text);
  },
  'index: Tokenizer.count': (n) => {
    const text = texts(n).join(' ');
    return () => tokenizer.count(text);
  },
  'index: Tokenizer.decode': (n) => {
    const all = list(n, (i) => 5 + (i % 10));
    return () => tokenizer.decode(all);
  },
  'index: Tokenizer.convertTokensToIds': (n) => {
    const all = list(n, (i) => words[i % 6]!);
    return () => tokenizer.convertTokensToIds(all);
  },
  'index: loadTokenizer (vocabulary)': (n) => {
    const file = JSON.parse(String(tiny['tokenizer.json']));
    for (let i = 0; i < n; i++) file.model.vocab[`word${i}`] = 24 + i;
    const files = { 'tokenizer.json': JSON.stringify(file) };
    return () => loadTokenizer(files);
  },
  'index: PretrainedModel.embed': (n) => {
    const all = texts(n);
    return () => quick.embed(all);
  },
  'index: PretrainedModel.embed (encoder)': (n) => {
    const all = texts(n / 4);
    return () => model.embed(all);
  },
  'index: PretrainedModel.encode': (n) => {
    const all = texts(n / 8);
    return () => model.encode(all);
  },
  'index: PretrainedModel.tokenize': (n) => {
    const all = texts(n);
    return () => model.tokenize(all);
  },
  'index: PretrainedModel.predict': (n) => {
    const all = texts(n / 8);
    return () => model.predict('fill-mask' as never, all);
  },
  'index: PretrainedModel.embedTokens': (n) => {
    const all = texts(n / 4);
    return () => model.embedTokens(all);
  },
  'index: PretrainedModel.decode': (n) => {
    const all = list(n, (i) => 5 + (i % 10));
    return () => model.decode(all);
  },
  'index: embedStream': (n) => {
    const all = texts(n);
    return async () => {
      let rows = 0;
      for await (const part of heedIndex.embedStream(quick, all)) rows += part.texts?.length ?? 1;
      expect(rows).toBeGreaterThan(0);
    };
  },
  'index: splitPassages': (n) => {
    const text = list(n / 8, (i) => `the quick fox ${i % 10}.`).join(' ');
    return () => heedIndex.splitPassages(tokenizer, text, { maxTokens: 20 });
  },
  'index: vocabularyCoverage': (n) => {
    const text = list(n, (i) => `the quick fox ${i % 10}.`).join(' ');
    return () => heedIndex.vocabularyCoverage(tokenizer, text);
  },
  'index: embedLong': (n) => {
    const text = texts(n / 16).join(' ');
    return () => heedIndex.embedLong(model, text);
  },
  'index: TextIndex.of (vectors)': (n) => {
    const [all, rows] = [texts(n), vectors(n)];
    return () => heed.TextIndex.of(all, rows).dispose();
  },
  'index: TextIndex.of (model)': (n) => {
    const all = texts(n);
    return async () => (await heed.TextIndex.of(quick, all)).dispose();
  },
  'index: TextIndex.searchAll (queries)': (n) => {
    const index = indexOf(3);
    return () => index.searchAll(vectors(n), { topK: 1 });
  },
  'index: TextIndex.search (topK)': (n) => {
    const index = indexOf(n);
    return () => index.search(new Float32Array([1, 2, 3, 4]), { topK: n });
  },
  'index: TextIndex.search (filter)': (n) => {
    const index = indexOf(n);
    return () => index.search(new Float32Array([1, 2, 3, 4]), { filter: ({ id }) => Number(id) % 2 === 0 });
  },
  'index: TextIndex.remove': (n) => {
    const index = indexOf(n);
    return () => index.remove(ids(n));
  },
  'index: TextIndex.save': (n) => {
    const index = indexOf(n);
    return () => index.save();
  },
  'index: TextIndex.load': (n) => {
    const saved = indexOf(n).save();
    return async () => (await heed.TextIndex.load(await saved)).dispose();
  },
  'index: TextIndex.toSafetensors': (n) => {
    const index = indexOf(n);
    return () => index.toSafetensors();
  },
  'index: TextIndex.toTensor': (n) => {
    const index = indexOf(n);
    return () => index.toTensor();
  },
  'index: TextIndex.add (replaced, one by one)': (n) => {
    const index = indexOf(n);
    return () => Promise.all(list(n / 100, (i) => index.add(['new'], vectors(1), { ids: [i], replace: true })));
  },
  'index: TextIndex.entries': (n) => {
    const index = indexOf(n);
    return () => {
      let last = -1;
      for (const { id } of index.entries()) last = Number(id);
      expect(last).toBe(n - 1);
    };
  },
  'index: Heed.quantizeIndex': (n) => {
    const index = heed.TextIndex.of(texts(n / 4), vectors(n / 4, 8));
    return () => heed.quantizeIndex(index);
  },
  'index: Heed.prune (texts to keep)': (n) => {
    const all = texts(n);
    return () => heed.prune(tinyModel() as ModelSource, { keep: all });
  },
  'index: Heed.fromPretrained (inputs of an ONNX node)': (n) => {
    const tensors = tensorsOf(tiny['model.safetensors'] as Uint8Array);
    const node = { op: 'Concat', inputs: list(n, (i) => `t${i}`), outputs: ['out'] };
    const { 'model.safetensors': _, ...others } = tiny;
    const identities = tensors.map(({ name }) => ({ op: 'Identity', inputs: [name], outputs: [`${name}_out`] }));
    const files = { ...others, 'onnx/model.onnx': onnxFile(tensors, [...identities, node]) };
    return async () => (await heed.fromPretrained(files)).dispose();
  },
  'train/index: Losses.crossEntropy (rows)': (n) => {
    const targets = list(n, (i) => i % 4);
    return () => training.losses.crossEntropy(training.softmax(vectors(n)), targets);
  },
  'train/index: Losses.crossEntropy (classes)': (n) => () =>
    training.losses.crossEntropy(training.softmax(vectors(4, n)), [0, 1, 2, n - 1]),
  'train/index: Losses.mse': (n) => () => training.losses.mse(training.softmax(vectors(n)), vectors(n)),
  'train/index: Losses.triplet': (n) => () => training.losses.triplet(vectors(n), vectors(n), vectors(n)),
  'train/index: Module.fit (examples)': (n) => {
    const layer = new training.Sequential([new training.Linear({ inFeatures: 4, outFeatures: 2 })]);
    const table = { inputs: vectors(n), labels: list(n, (i) => i % 2) };
    const optimizer = new training.optim.SGD(layer.parameters(), { lr: 0.1 });
    return () =>
      layer.fit(table, {
        loss: 'crossEntropy',
        optimizer,
        epochs: 1,
        batchSize: n / 4,
        metrics: ['accuracy'],
      } as never);
  },
  'train/index: Module.evaluate (classes)': (n) => {
    const layer = new training.Sequential([new training.Linear({ inFeatures: 1, outFeatures: n })]);
    const table = { inputs: vectors(4, 1), labels: [0, 1, 2, 3] };
    return () => layer.evaluate(table, { loss: 'crossEntropy', metrics: ['accuracy'] } as never);
  },
  'train/index: trainClassifier (examples, until it is stopped)': (n) => {
    const stop = new AbortController();
    const options = { validation: 0.1, signal: stop.signal, onStep: () => stop.abort() };
    return () =>
      training.trainClassifier(taught, examples(n / 4), options).catch(({ name }) => expect(name).toBe('AbortError'));
  },
  'evaluation/index: classificationMetrics (examples)': (n) => () => classificationMetrics(labels(n), labels(n)),
  'evaluation/index: informationRetrievalMetrics (queries)': (n) => {
    const ranked = list(n, () => ['a', 'b']);
    return () => informationRetrievalMetrics(ranked, ranked);
  },
  'evaluation/index: informationRetrievalMetrics (hits)': (n) => {
    const ranked = [list(n, (i) => `d${i}`)];
    return () => informationRetrievalMetrics(ranked, ranked, { precisionRecallAtK: [n] });
  },
  'evaluation/index: embeddingSimilarityMetrics': (n) => () => embeddingSimilarityMetrics(numbers(n), numbers(n)),
  ...Object.fromEntries(
    Object.entries({
      giniCoefficient,
      d2GammaScore,
      d2PoissonScore,
      meanAbsoluteError,
      meanGammaDeviance,
      meanPoissonDeviance,
      meanSquaredError,
      r2Score,
      rootMeanSquaredError,
    }).map(([name, score]): [string, Prepare] => [
      `evaluation/index: ${name}`,
      (n) => () => score(numbers(n), numbers(n)),
    ]),
  ),
  'evaluation/index: rocAucScore': (n) => () =>
    rocAucScore(
      list(n, (i) => i % 2),
      numbers(n),
    ),
  'util/index: kMeans': (n) => () => util.kMeans(vectors(n), { numClusters: 2, seed: 1 } as never),
  'util/index: windows': (n) => () => util.windows(vectors(n, 1), { length: 4, horizon: 1 } as never),
  'util/index: StandardScaler.fit': (n) => () => new util.StandardScaler().fit(vectors(n)).transform(vectors(n)),
  'util/index: MinMaxScaler.fit': (n) => () => new util.MinMaxScaler().fit(vectors(n)).transform(vectors(n)),
};

/** Milliseconds of CPU time that a call takes. */
async function cost(call: () => unknown): Promise<number> {
  globalThis.gc?.();
  const before = process.cpuUsage();
  await call();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

describe('a call with many', () => {
  test.each(Object.entries(calls))('%s', (_, prepare) => expectLinear((n) => cost(prepare(n))));
});

/** What takes no list of any length, or costs more by its definition, with the reason. */
const OTHERS: [name: RegExp, reason: string][] = [
  [
    new RegExp(
      `: (${Object.keys(layers).join('|')}|DecoderCache|FeatureTokenizer|FreeParameter|Layer|Module|Parameter|Sequential|Trainable)\\b`,
    ),
    'layers compute by the functions above, and attention is quadratic in the length of a sequence',
  ],
  [/: (Tensor|Loss|SiteActivation)\b/, 'a tensor, whose toArray is above'],
  [/: Operations\./, 'operations read tensors as add and concatenate do'],
  [/: (Optim|Optimizer|Schedule|Schedules|Checkpoints)\b/, 'parameters of a model'],
  [/: Losses\./, 'losses read tensors as those above; some compare all pairs by definition'],
  [/^(draw|lens)\/index: /, 'pictures and experiments of a sentence'],
  [/^(adapters\/|corpus: )/, 'they call embed, or read files piece by piece'],
  [/: (communityDetection|deduplicate|mineHardNegatives|paraphraseMining)$/, 'they compare all pairs'],
  [/: (evaluateClassifier|evaluateInformationRetrieval|evaluateEmbeddingSimilarity)$/, 'embed, and the metrics above'],
  [/Scaler\b/, 'scalers: fit and transform are above'],
  [/: Masks\./, 'masks have an entry for each pair of positions, except for padding'],
  [/: (HeedError|flops|load|Heed|pipeline|fromKeras|headImportance|attentionRollout|clearCache|listCache)$/, 'no list'],
  [
    /: Heed\.(fromPretrained|inspect|loadTokenizer|quantize|dispose|attention|softmax|linear|layerNorm|dropout)$/,
    'see above',
  ],
  [
    /: (Tokenizer|TextIndex)(\.(tokenize|convertIdsToTokens|searchLatest|get|has|update|dispose))?$/,
    'one entry, or as above',
  ],
  [/: TextIndex\.(of|load)$/, 'as above'],
  [
    /: (answerQuestion|classify|classifyImages|classifyTokens|extractEntities|fillMask|rerank|zeroShotClassify|encodeStream)$/,
    'tasks call encode or predict for each text',
  ],
  [/: PretrainedModel\.(embedQuery|embedDocument|embedSparse|scoreSpans|embedImages|encodeImage|dispose)$/, 'as embed'],
  [/: PretrainedModel\.loadHead$/, 'a matrix of some kilobytes'],
];

test('every public function and method is called with many, or the reason why not is stated', () => {
  const called = new Set(Object.keys(calls).map((name) => name.replace(/ \(.*/, '')));
  const left = publicItems()
    .map(({ name }) => name)
    .filter((name) => !called.has(name) && !OTHERS.some(([pattern]) => pattern.test(name)));
  expect(left).toEqual([]);
});
