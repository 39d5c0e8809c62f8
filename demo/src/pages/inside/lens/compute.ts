/** What the lens computes with edits of activations. */
import { type PretrainedModel, similarity, type Tensor } from 'heed';
import { logitLens, patchGrid } from 'heed/lens';
import { type Candidate, candidates, cosine, type Measure, type Pair, patchedScore, scoresOf } from './measures';
import type { Over } from './presets';

/** The layer on whose output a direction is added. */
export const steeredLayer = 1;

const headOff = (layer: number, head: number) => ({ site: `layers.${layer}.heads`, heads: [head], scale: 0 });

/** Edits that switch heads off, given as "layer.head"; those that the model lacks are left out. */
export function switchedOff({ config }: PretrainedModel, off: readonly string[]) {
  return off.flatMap((name) => {
    const [layer, head] = name.split('.').map(Number) as [number, number];
    const exists = layer >= 0 && layer < config.numLayers && head >= 0 && head < config.numHeads;
    return exists ? [headOff(layer, head)] : [];
  });
}

/** The candidates with heads switched off, best first. */
export const candidatesWithout = (
  model: PretrainedModel,
  measure: Measure,
  texts: Pair,
  off: readonly string[],
): Promise<Candidate[]> => candidates(model, measure, texts, switchedOff(model, off));

/** By how much the score of the candidate that is best without edits changes when one head of a layer alone is switched off: [heads]. */
export async function headEffects(
  model: PretrainedModel,
  measure: Measure,
  texts: Pair,
  { id, score }: Candidate,
  layer: number,
): Promise<number[]> {
  const edits = Array.from({ length: model.config.numHeads }, (_, head) => headOff(layer, head));
  const scores = await scoresOf(model, measure, texts, id, edits);
  return scores.map((each) => each - score);
}

export interface Grid {
  /** [layers][heads, positions or blocks]: the score of the patched second text. */
  values: number[][];
  columns: string[];
  /** Without a patch. */
  unpatched: number;
  /** What is scored: the similarity to the first text, or the first text's best candidate. */
  name: string;
}

/** Patches the first text's activations into the second. A text instead says why that cannot be done. */
export async function patched(
  model: PretrainedModel,
  measure: Measure,
  [clean, corrupted]: Pair,
  over: Over,
): Promise<Grid | string> {
  const { maskToken } = model.config;
  const [one, other] = await Promise.all([model.encode(clean), model.encode(corrupted)]);
  if (one.tokens[0]!.length !== other.tokens[0]!.length)
    return 'Patching needs two sentences with the same number of tokens; these have different numbers.';
  if (measure === 'word' && corrupted.split(maskToken!).length !== 2)
    return `Write ${maskToken} once in the second sentence, too: its candidates are compared.`;
  const call = { clean, corrupted, over };
  const columns = {
    heads: () => Array.from({ length: model.config.numHeads }, (_, head) => `${head + 1}`),
    positions: () => one.tokens[0]!,
    blocks: () => ['attention', 'feed-forward'],
  }[over]();
  if (measure === 'similarity') {
    const target = meanOf(one.lastHiddenState);
    const metric = ({ lastHiddenState }: { lastHiddenState: Tensor }) =>
      similarity([[...meanOf(lastHiddenState)]], [[...target]]).at<number>(0, 0);
    const values = (await patchGrid(model, { ...call, metric })).toArray<number[][]>();
    return { values, columns, unpatched: metric(other), name: 'similarity' };
  }
  const [best] = await candidates(model, measure, [clean, corrupted], []);
  const scored = patchedScore(model, measure, best!.id);
  const values = (await patchGrid(model, { ...call, ...scored })).toArray<number[][]>();
  const unpatched = scored.metric(await model.predict(scored.head, corrupted));
  return { values, columns, unpatched, name: best!.name };
}

export interface Steered {
  /** Its similarity to the two ends of the direction. */
  from: number;
  to: number;
}

/** The first text with `strength` times the difference of two texts' mean activations added to all its tokens. */
export async function steer(
  model: PretrainedModel,
  { text, from, to, strength }: { text: string; from: string; to: string; strength: number },
): Promise<Steered> {
  const site = `layers.${Math.min(steeredLayer, model.config.numLayers - 1)}.output`;
  const mean = async (end: string) => meanOf((await model.encode(end, { read: [site] })).activations![site]!);
  const [a, b, ends] = await Promise.all([mean(from), mean(to), model.embed([from, to])]);
  const direction = b.map((value, i) => strength * (value - a[i]!));
  const vector = await model.embed(text, { edit: [{ site, add: { data: direction, shape: [direction.length] } }] });
  return { from: cosine(vector, ends.slice(0, 1)), to: cosine(vector, ends.slice(1)) };
}

export interface WordsByLayer {
  tokens: string[];
  /** [layers + 1][tokens]: the most probable word, the embeddings' first. */
  layers: Candidate[][];
}

/** What the model's output layer for words makes of each layer. */
export async function wordsByLayer(model: PretrainedModel, text: string): Promise<WordsByLayer> {
  const [{ tokens }, layers] = await Promise.all([model.tokenize(text), logitLens(model, text, { topK: 1 })]);
  return {
    tokens: tokens[0]!,
    layers: layers.map((row) => row.map(([best]) => ({ id: best!.token, name: best!.word, score: best!.score }))),
  };
}

/** The mean of a text's rows, as the bundled model pools them. */
export function meanOf({ data, shape }: Tensor): Float32Array {
  const [, rows, width] = shape as [number, number, number];
  const mean = new Float32Array(width);
  data.forEach((value, i) => (mean[i % width]! += value / rows));
  return mean;
}
