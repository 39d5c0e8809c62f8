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
let loading: Promise<TextIndex> | undefined;

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

  attention: (which: Which, text: string, headMask: HeadMask) =>
    inTurn(() => viewAttention(open(which), text, headMask)),
  similarity: (which: Which, texts: string[], headMask: HeadMask) =>
    inTurn(() => viewSimilarity(runtime(), open(which), texts, headMask)),
  importance: (which: Which, texts: string[]) => inTurn(() => measureImportance(open(which), texts)),
  projection: (which: Which, texts: string[]) => inTurn(() => viewProjection(open(which), texts)),

  async define(description: string, headMask: HeadMask) {
    const words = await dictionary();
    return inTurn(() => define(words, open('shipped'), description, headMask));
  },
  /** Fetches what would otherwise be fetched when it is first asked for. */
  async prepare() {
    await dictionary();
  },

  lengths: (which: Which, onResult: (result: LengthResult) => void) =>
    inTurn(() => measureLengths(open(which), onResult)),
  parts: (which: Which, length: number) => inTurn(() => measureParts(runtime(), open(which), length)),
};
export type Engine = typeof engine;

let last: Promise<unknown> = Promise.resolve();

/** One after the other: there is one core for all, and what the page says a task took is its own time. */
function inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
  const result = last.then(task);
  last = result.catch(() => {});
  return result;
}

function dictionary(): Promise<TextIndex> {
  if (!loading) {
    loading = loadDictionary();
    loading.catch(() => {
      loading = undefined; // so that the next try loads again
    });
  }
  return loading;
}

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
