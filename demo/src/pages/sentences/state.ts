/** The reader's sentences, on “Meaning” and “Inside”, and what the model makes of each. */
import { computed, effect, signal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { inTurn } from '../../engine/heed';
import { type Reading, readingOf } from '../../engine/reading';
import { text } from '../../state/codecs';
import { latest } from '../../state/latest';
import { page, urlState } from '../../state/url';
import { sentences } from '../meaning/examples';
import { opened, readsText } from '../model/choice';

export const maxSentences = 12;

/** One text per line. */
export const written = urlState(['meaning', 'inside'], 'text', sentences.join('\n'), text);
const lines = computed(() =>
  written.value
    .split('\n')
    .map((line) => line.trim())
    .filter(Boolean),
);
export const texts = computed(() => lines.value.slice(0, maxSentences));
export const linesLeftOut = computed(() => Math.max(0, lines.value.length - maxSentences));

/** How the model reads the sentences. */
export const reading = signal<{ texts: string[]; of: Reading[] } | null>(null);

const read = latest(
  ({ model, texts }: { model: PretrainedModel; texts: string[] }) => inTurn(() => readingOf(model, texts)),
  (of, { texts }) => {
    reading.value = { texts, of };
  },
  () => {}, // what the sentences are for reports it
);

let isFollowed = false;

export function followSentences(): void {
  if (isFollowed) return;
  isFollowed = true;
  effect(() => {
    const isShown = page.value === 'meaning' || page.value === 'inside';
    if (isShown && opened.value && readsText.value && texts.value.length > 0)
      read({ model: opened.value.model, texts: texts.value });
  });
}

/** Clamps an index to a list's length: a link may name a layer that the model does not have. */
export const within = (value: number, length: number): number => Math.max(0, Math.min(value, length - 1));
