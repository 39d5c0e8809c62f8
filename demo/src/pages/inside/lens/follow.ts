/** Computes the results of the lens when what they depend on changes while the page is shown. */
import { computed, effect, signal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { asFailure, type Failure, inTurn } from '../../../engine/heed';
import { latest } from '../../../state/latest';
import { page } from '../../../state/url';
import { source } from '../../model/choice';
import { part } from '../state';
import {
  candidatesWithout,
  type Grid,
  headEffects,
  patched,
  type Steered,
  steer,
  type WordsByLayer,
  wordsByLayer,
} from './compute';
import { type Candidate, type Measure, missing, type Pair } from './measures';
import { first, from, measure, model, off, over, second, strength, to } from './state';

export interface Edited {
  measure: Measure;
  /** The heads that are off in it; while a click is being answered, others are. */
  off: readonly string[];
  /** With all heads, best first. */
  plain: Candidate[];
  /** With heads switched off. */
  edited: Candidate[];
  milliseconds: number;
}

export const edited = signal<Edited | null>(null);
/** [layers][heads]; layers that are still to be computed are missing. */
export const effects = signal<number[][]>([]);
export const grid = signal<Grid | string | null>(null);
export const words = signal<WordsByLayer | null>(null);
export const steered = signal<Steered | null>(null);
export const failure = signal<Failure | null>(null);

interface Followed {
  model: PretrainedModel;
  measure: Measure;
  texts: Pair;
}

/** null while there is nothing to compute. */
const followed = computed<Followed | null>(() => {
  const texts: Pair = [first.value, second.value];
  const isEmpty = !texts[0].trim() || (measure.value === 'similarity' && !texts[1].trim());
  if (page.value !== 'inside' || part.value !== 'lens' || source.value === 'trained' || !model.value || isEmpty)
    return null;
  return missing(model.value, measure.value, texts) ? null : { model: model.value, measure: measure.value, texts };
});

let known: { of: Followed; candidates: Candidate[] } | undefined;

/** The candidates with all heads; computed once for a pair of texts, so that the answer to a click takes one call. */
async function unedited(of: Followed): Promise<Candidate[]> {
  if (known?.of !== of) known = { of, candidates: await candidatesWithout(of.model, of.measure, of.texts, []) };
  return known.candidates;
}

function follow<Input, Result>(
  read: () => Input | null,
  compute: (input: Input) => Promise<Result>,
  show: (result: Result) => void,
): void {
  const run = latest(
    compute,
    (result) => {
      failure.value = null;
      show(result);
    },
    (reason) => {
      failure.value = asFailure(reason);
    },
  );
  effect(() => {
    const input = read();
    if (input !== null) run(input);
  });
}

effect(() => {
  if (followed.value) return;
  edited.value = null;
  effects.value = [];
  grid.value = null;
});

follow(
  () => followed.value && { of: followed.value, off: off.value },
  ({ of, off }) =>
    inTurn(async (): Promise<Edited> => {
      const start = performance.now();
      const candidates = await candidatesWithout(of.model, of.measure, of.texts, off);
      const milliseconds = performance.now() - start;
      if (off.length === 0) known = { of, candidates };
      return { measure: of.measure, off, edited: candidates, milliseconds, plain: await unedited(of) };
    }),
  (result) => {
    edited.value = result;
  },
);
follow(
  () => followed.value,
  // A turn per layer, so that clicks on heads are answered between them.
  async (of) => {
    const rows: number[][] = [];
    effects.value = rows;
    for (let layer = 0; layer < of.model.config.numLayers && followed.peek() === of; layer++)
      rows[layer] = await inTurn(async () => {
        const [best] = await unedited(of);
        const row = await headEffects(of.model, of.measure, of.texts, best!, layer);
        if (followed.peek() === of) effects.value = [...rows, row];
        return row;
      });
  },
  () => {},
);
follow(
  () => followed.value && { of: followed.value, over: over.value },
  ({ of, over }) => inTurn(async () => (of.texts[1].trim() ? patched(of.model, of.measure, of.texts, over) : null)),
  (found) => {
    grid.value = found;
  },
);
follow(
  () => (followed.value?.measure === 'word' ? followed.value : null),
  ({ model, texts }) => inTurn(() => wordsByLayer(model, texts[0])),
  (found) => {
    words.value = found;
  },
);
follow(
  () =>
    followed.value && {
      of: followed.value.model,
      options: { text: first.value, from: from.value, to: to.value, strength: strength.value },
    },
  ({ of, options }) => inTurn(() => steer(of, options)),
  (result) => {
    steered.value = result;
  },
);
