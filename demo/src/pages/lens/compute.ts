/** What the page “Lens” computes with edits of activations. */
import { type PretrainedModel, similarity, type Tensor } from 'heed';
import { patchGrid } from 'heed/lens';
import type { Over } from './presets';

/** The layer on whose output a direction is added. */
export const steeredLayer = 1;

const cosine = (a: Tensor, b: Tensor): number => similarity(a, b).at<number>(0, 0);

/** Edits that switch heads off, given as "layer.head"; those that the model lacks are left out. */
export function switchedOff({ config }: PretrainedModel, off: readonly string[]) {
  return off.flatMap((name) => {
    const [layer, head] = name.split('.').map(Number) as [number, number];
    const exists = layer >= 0 && layer < config.numLayers && head >= 0 && head < config.numHeads;
    return exists ? [{ site: `layers.${layer}.heads`, heads: [head], scale: 0 }] : [];
  });
}

/** The similarity of two texts, with heads switched off. */
export async function similarityWithout(model: PretrainedModel, texts: [string, string], off: readonly string[]) {
  const vectors = await model.embed(texts, { edit: switchedOff(model, off) });
  return cosine(vectors.slice(0, 1), vectors.slice(1));
}

/** By how much the similarity changes when one head alone is switched off: [layers][heads]. */
export async function headEffects(model: PretrainedModel, texts: [string, string]): Promise<number[][]> {
  const { numLayers, numHeads } = model.config;
  const heads = Array.from({ length: numLayers * numHeads }, (_, i) => [Math.floor(i / numHeads), i % numHeads]);
  // The last two texts are those with all heads.
  const all = [...heads, []].flatMap(() => texts);
  const edit = heads.map(([layer, head], i) => ({
    site: `layers.${layer}.heads`,
    texts: [2 * i, 2 * i + 1],
    heads: [head!],
    scale: 0,
  }));
  const vectors = await model.embed(all, { edit });
  const of = (i: number) => cosine(vectors.slice(2 * i, 2 * i + 1), vectors.slice(2 * i + 1, 2 * i + 2));
  const plain = of(heads.length);
  const changes = heads.map((_, i) => of(i) - plain);
  return Array.from({ length: numLayers }, (_, layer) => changes.slice(layer * numHeads, (layer + 1) * numHeads));
}

export interface Grid {
  /** [layers][heads, positions or blocks]: the patched second text's similarity to the first. */
  values: number[][];
  columns: string[];
  /** Without a patch. */
  unpatched: number;
}

/** Patches the first text's activations into the second. null: the texts have different numbers of tokens. */
export async function patched(
  model: PretrainedModel,
  [clean, corrupted]: [string, string],
  over: Over,
): Promise<Grid | null> {
  const [one, other] = await Promise.all([model.encode(clean), model.encode(corrupted)]);
  if (one.tokens[0]!.length !== other.tokens[0]!.length) return null;
  const target = meanOf(one.lastHiddenState);
  const metric = ({ lastHiddenState }: { lastHiddenState: Tensor }) =>
    similarity([[...meanOf(lastHiddenState)]], [[...target]]).at<number>(0, 0);
  const grid = await patchGrid(model, { clean, corrupted, metric, over });
  const columns = {
    heads: () => Array.from({ length: grid.shape[1]! }, (_, head) => `${head + 1}`),
    positions: () => one.tokens[0]!,
    blocks: () => ['attention', 'feed-forward'],
  };
  return { values: grid.toArray<number[][]>(), columns: columns[over](), unpatched: metric(other) };
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

/** The mean of a text's rows, as the bundled model pools them. */
export function meanOf({ data, shape }: Tensor): Float32Array {
  const [, rows, width] = shape as [number, number, number];
  const mean = new Float32Array(width);
  data.forEach((value, i) => (mean[i % width]! += value / rows));
  return mean;
}
