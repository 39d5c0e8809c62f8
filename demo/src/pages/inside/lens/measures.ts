/** What the lens follows while a model is changed: the similarity of two sentences, the candidates for a masked word, or a classifier's labels. */
import { type PretrainedModel, type SiteEdit, similarity, type Tensor } from 'heed';

export type Measure = 'similarity' | 'word' | 'label';
export type Pair = [first: string, second: string];

/** A candidate and its probability; of the similarity, the only one. */
export interface Candidate {
  /** Of the word or the label. */
  id: number;
  name: string;
  score: number;
}

/** Those that a model has. Only a call tells whether its checkpoint has the head. */
export async function measuresOf(model: PretrainedModel): Promise<Measure[]> {
  const { maskToken, labels } = model.config;
  const has = (measure: 'word' | 'label') =>
    model.predict(headOf[measure], maskToken ?? 'a').then(
      () => true,
      () => false,
    );
  const [word, label] = [maskToken !== null && (await has('word')), labels.length > 0 && (await has('label'))];
  return ['similarity', ...(word ? ['word' as const] : []), ...(label ? ['label' as const] : [])];
}

export const cosine = (a: Tensor, b: Tensor): number => similarity(a, b).at<number>(0, 0);

/** Why the first sentence has no such result, or null. */
export function missing({ config }: PretrainedModel, measure: Measure, [first]: Pair): string | null {
  const { maskToken } = config;
  if (measure !== 'word' || first.split(maskToken!).length === 2) return null;
  return `Write ${maskToken} once in the first sentence, in place of the word that the model is to find.`;
}

const shown = 5;

const headOf = { word: 'fill-mask', label: 'sequence-classification' } as const;

/** The scores of all words or labels, as `fillMask` and `classify` compute them from logits. */
export function scoresIn({ config }: PretrainedModel, measure: Measure, { data }: Tensor): Float32Array {
  if (measure === 'label') {
    if (config.problemType === 'regression') return data;
    if (config.problemType === 'multi_label_classification' || data.length === 1)
      return data.map((logit) => 1 / (1 + Math.exp(-logit)));
  }
  const most = data.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = data.map((logit) => Math.exp(logit - most));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** The candidates with edits, best first. */
export async function candidates(
  model: PretrainedModel,
  measure: Measure,
  texts: Pair,
  edit: SiteEdit[],
): Promise<Candidate[]> {
  if (measure === 'similarity') {
    const vectors = await model.embed(texts, { edit });
    return [{ id: 0, name: 'similarity', score: cosine(vectors.slice(0, 1), vectors.slice(1)) }];
  }
  const { logits } = await model.predict(headOf[measure], texts[0], { edit });
  const scores = scoresIn(model, measure, logits.at<Tensor>(0));
  const best = [...scores.keys()].sort((a, b) => scores[b]! - scores[a]! || a - b).slice(0, shown);
  return Promise.all(best.map(async (id) => ({ id, name: await nameOf(model, measure, id), score: scores[id]! })));
}

/** Special tokens and ids beyond the vocabulary have no text. */
const nameOf = async (model: PretrainedModel, measure: 'word' | 'label', id: number): Promise<string> =>
  measure === 'label' ? (model.config.labels[id] ?? `${id}`) : (await model.decode([id])).trim() || `[${id}]`;

/** For each of the edits on its own, the score of the candidate `id`. One call. */
export async function scoresOf(
  model: PretrainedModel,
  measure: Measure,
  texts: Pair,
  id: number,
  edits: SiteEdit[],
): Promise<number[]> {
  if (measure === 'similarity') {
    const edit = edits.map((one, i) => ({ ...one, texts: [2 * i, 2 * i + 1] }));
    const vectors = await model.embed(
      edits.flatMap(() => texts),
      { edit },
    );
    return edits.map((_, i) => cosine(vectors.slice(2 * i, 2 * i + 1), vectors.slice(2 * i + 1, 2 * i + 2)));
  }
  const edit = edits.map((one, i) => ({ ...one, texts: [i] }));
  const repeated = edits.map(() => texts[0]);
  const { logits } = await model.predict(headOf[measure], repeated, { edit });
  return edits.map((_, i) => scoresIn(model, measure, logits.at<Tensor>(i))[id]!);
}

/** Those of `patchGrid`: the score of the candidate `id` in what `predict` returns. */
export const patchedScore = (model: PretrainedModel, measure: 'word' | 'label', id: number) => ({
  head: headOf[measure],
  metric: ({ logits }: { logits: Tensor }) => scoresIn(model, measure, logits.at<Tensor>(0))[id]!,
});
