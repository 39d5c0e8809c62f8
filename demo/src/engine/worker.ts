/** The only place that computes: the page's worker. What it offers is typed by `Engine`; Comlink carries the calls. */
import { expose } from 'comlink';
import { type Heed, type LoadProgress, load, type PretrainedModel, type TextIndex } from 'heed';
import { define, loadDictionary } from './dictionary';
import { carryErrors } from './errors';
import { computeHand, computePositions, type HandInput } from './hand';
import {
  describeModel,
  type HeadMask,
  type ModelSource,
  measureImportance,
  openModel,
  viewAttention,
  viewProjection,
  viewSimilarity,
} from './models';
import { type LengthResult, measureLengths, measureParts } from './speed';

export type Build = 'auto' | 'relaxed-simd' | 'simd128';
export type Which = 'shipped' | 'own';

let heed: Heed | undefined;
const models: Partial<Record<Which, PretrainedModel>> = {};
let dictionary: Promise<TextIndex> | undefined;

const engine = {
  async start(build: Build) {
    heed = await load({ build });
    return heed.info;
  },

  memory: () => runtime().info.memoryBytes,

  hand: (input: HandInput) => computeHand(runtime(), input),
  positions: (length: number, dim: number, base: number) => computePositions(runtime(), length, dim, base),

  async open(
    which: Which,
    source: ModelSource,
    dtype: 'fp32' | 'q8' | undefined,
    onProgress: (progress: LoadProgress) => void,
  ) {
    const start = performance.now();
    const model = await openModel(runtime(), source, dtype, onProgress);
    models[which]?.dispose();
    models[which] = model;
    return describeModel(model, performance.now() - start);
  },

  attention: (which: Which, text: string, headMask: HeadMask) => viewAttention(open(which), text, headMask),
  similarity: (which: Which, texts: string[], headMask: HeadMask) =>
    viewSimilarity(runtime(), open(which), texts, headMask),
  importance: (which: Which, texts: string[]) => measureImportance(open(which), texts),
  projection: (which: Which, texts: string[]) => viewProjection(open(which), texts),

  async define(description: string, headMask: HeadMask) {
    dictionary ??= loadDictionary();
    dictionary.catch(() => {
      dictionary = undefined; // so that the next try loads again
    });
    return define(await dictionary, open('shipped'), description, headMask);
  },

  lengths: (which: Which, onResult: (result: LengthResult) => void) => measureLengths(open(which), onResult),
  parts: (which: Which, length: number) => measureParts(runtime(), open(which), length),
};
export type Engine = typeof engine;

function runtime(): Heed {
  if (!heed) throw new Error('The module has not started.');
  return heed;
}

function open(which: Which): PretrainedModel {
  const model = models[which];
  if (!model) throw new Error('No model is open.');
  return model;
}

carryErrors();
expose(engine);
