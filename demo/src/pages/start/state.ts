/** One sentence and one head of the bundled model; a token's queries and keys for “By hand”. */
import { computed, effect, signal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { asFailure, type Failure, inTurn, shipped, wanted } from '../../engine/heed';
import { integer, optional, word } from '../../state/codecs';
import { latest } from '../../state/latest';
import { page, urlState } from '../../state/url';
import { sentence, shown, thousandths, tokens } from './opening';

export const written = urlState('start', 'text', sentence, word);
export const token = urlState<number | null>('start', 'token', shown.token, optional(integer(0, 99)));

export interface View {
  sentence: string;
  tokens: string[];
  /** (L, L), row-major. */
  weights: Float32Array;
  /** (L, D) each; null until the model has loaded. */
  vectors: { queries: number[][]; keys: number[][]; values: number[][] } | null;
}

const opening: View = {
  sentence,
  tokens,
  weights: Float32Array.from(thousandths.flat(), (share) => share / 1000),
  vectors: null,
};

const current = signal<View | null>(null);
export const failure = signal<Failure | null>(null);
/** What is drawn: the computed view, before the model has loaded that of the first sentence. */
export const view = computed(() => current.value ?? (written.value === sentence ? opening : null));

/** Longer sentences are cut off. */
const shownTokens = 24;

async function look(model: PretrainedModel, text: string): Promise<View> {
  const sites = ['queries', 'keys', 'values'].map((name) => `layers.${shown.layer}.${name}`);
  const { tokens, attentions, activations } = await model.encode([text], { outputAttentions: true, read: sites });
  const length = Math.min(shownTokens, tokens[0]!.length);
  const rows = (attentions![shown.layer]!.toArray() as number[][][][])[0]![shown.head]!;
  const [queries, keys, values] = sites.map((site) =>
    (activations![site]!.toArray() as number[][][][])[0]![shown.head]!.slice(0, length),
  ) as [number[][], number[][], number[][]];
  return {
    sentence: text,
    tokens: tokens[0]!.slice(0, length),
    weights: Float32Array.from(rows.slice(0, length).flatMap((row) => row.slice(0, length))),
    vectors: { queries, keys, values },
  };
}

const run = latest(
  ({ model, text }: { model: PretrainedModel; text: string }) => inTurn(() => look(model, text)),
  (found) => {
    failure.value = null;
    current.value = found;
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);

export function followStart(): void {
  effect(() => {
    if (page.value !== 'start') return;
    if (written.value !== sentence) wanted.value = true; // also for readers who save data
    const text = written.value.trim();
    if (shipped.value && text) run({ model: shipped.value.model, text });
  });
}
