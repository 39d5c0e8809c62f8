/** The map of the reader's document: its sentences, embedded and laid out in the tab. */
import { effect, signal } from '@preact/signals';
import { type PretrainedModel, semanticSearch, Tensor } from 'heed';
import { asFailure, type Failure, inTurn } from '../../engine/heed';
import { attemptsAt } from '../../state/attempts';
import { choice } from '../../state/codecs';
import { latest } from '../../state/latest';
import { page, urlState } from '../../state/url';
import { opened, readsText } from '../model/choice';
import type { DocumentSearch } from './document/state';

export const mapOf = urlState<'words' | 'document'>('meaning', 'map', 'words', choice('words', 'document'));

export interface Points {
  texts: string[];
  /** (texts, dimensions), of length 1. */
  vectors: Tensor;
  /** [texts][neighbours]: the nearest others, the nearest first, and their cosines. */
  nearest: { index: number; score: number }[][];
}

export const points = signal<Points | null>(null);
/** [texts][2] */
export const positions = signal<number[][] | null>(null);
export const failure = signal<Failure | null>(null);
/** How many texts have been embedded, of how many. */
export const embedded = signal<{ done: number; total: number } | null>(null);

export const mostPoints = 1000;
const batchSize = 50;
const neighbours = 15;
/** Milliseconds for which computing may hold the page. */
const slice = 8;

const pause = () => new Promise((resolve) => setTimeout(resolve));

/** The nearest others of each row, a few rows at a time. */
export async function nearestOf(vectors: Tensor, rest = pause): Promise<Points['nearest']> {
  const [count] = vectors.shape as [number, number];
  const nearest: Points['nearest'] = [];
  for (let at = 0; at < count; at += batchSize) {
    const rows = vectors.slice(at, Math.min(count, at + batchSize));
    for (const [i, hits] of semanticSearch(rows, vectors, { topK: neighbours + 1 }).entries())
      nearest.push(hits.filter(({ index }) => index !== at + i).slice(0, neighbours));
    await rest();
  }
  return nearest;
}

async function embedAll(model: PretrainedModel, texts: string[], isCurrent: () => boolean): Promise<Tensor | null> {
  const rows: Float32Array[] = [];
  let width = 0;
  for (let at = 0; at < texts.length; at += batchSize) {
    if (!isCurrent()) return null;
    const { data, shape } = await inTurn(() => model.embed(texts.slice(at, at + batchSize), { normalize: true }));
    width = shape[1]!;
    rows.push(data);
    embedded.value = { done: Math.min(texts.length, at + batchSize), total: texts.length };
  }
  const data = new Float32Array(texts.length * width);
  for (const [i, part] of rows.entries()) data.set(part, i * batchSize * width);
  return new Tensor(data, [texts.length, width]);
}

/** Lays the points out, and shows them after each few epochs. */
async function arrange({ nearest }: Points, isCurrent: () => boolean): Promise<void> {
  const { startLayout } = await import('../../engine/umap');
  const layout = startLayout(
    nearest.map((others, i) => [i, ...others.map(({ index }) => index)]),
    nearest.map((others) => [0, ...others.map(({ score }) => Math.max(0, 1 - score))]),
  );
  const isCalm = matchMedia('(prefers-reduced-motion: reduce)').matches;
  let goesOn = true;
  while (goesOn && isCurrent()) {
    const until = performance.now() + slice;
    while (goesOn && performance.now() < until) goesOn = layout.step();
    if (!isCalm || !goesOn) positions.value = layout.positions().map(([x, y]) => [x!, y!]);
    await new Promise((resolve) => (document.hidden || isCalm ? setTimeout(resolve) : requestAnimationFrame(resolve)));
  }
}

interface Input {
  model: PretrainedModel;
  texts: string[];
}

const make = (input: Input, isCurrent: () => boolean) => async (): Promise<void> => {
  const { texts } = input;
  if (texts.length < 3) {
    points.value = positions.value = embedded.value = null;
    return;
  }
  const vectors = await embedAll(input.model, texts, isCurrent);
  if (!vectors) return;
  const made = { texts, vectors, nearest: await nearestOf(vectors) };
  if (!isCurrent()) return;
  positions.value = null;
  points.value = made;
  await arrange(made, isCurrent);
};

const { begin, retry } = attemptsAt(failure);

export { retry };

export function followMap({ index }: DocumentSearch): void {
  let current = 0;
  const run = latest(
    (input: Input) => {
      const own = ++current;
      return make(input, () => own === current)();
    },
    () => {
      failure.value = null;
    },
    (reason) => {
      failure.value = asFailure(reason);
    },
  );
  effect(() => {
    begin();
    const model = opened.value?.model;
    if (page.value !== 'meaning' || !model || !readsText.value) return;
    // Once it has been read.
    if (mapOf.value !== 'document' || index.value.passages.length !== index.value.total || index.value.total === 0)
      return;
    const sentences = index.value.passages.flat().slice(0, mostPoints);
    current++;
    run({ model, texts: [...new Set(sentences)] });
  });
}
