/** The settings of the lens; they are part of the link. */
import { computed, effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { inTurn } from '../../../engine/heed';
import { choice, list, number, text } from '../../../state/codecs';
import { page, urlState } from '../../../state/url';
import { opened, readsText } from '../../model/choice';
import { part } from '../state';
import { type Measure, measuresOf } from './measures';
import { type Over, opening } from './presets';

export const first = urlState('inside', 'first', opening.first, text);
export const second = urlState('inside', 'second', opening.second, text);
/** Heads switched off, as "layer.head". */
export const off = urlState<string[]>('inside', 'off', [], list(text));
export const over = urlState<Over>('inside', 'over', opening.over, choice('heads', 'positions', 'blocks'));
/** What is followed while heads are switched off and activations are patched. */
const wantedMeasure = urlState<Measure>('inside', 'measure', 'similarity', choice('similarity', 'word', 'label'));
/** The two ends of the direction of steering, and how far along it. */
export const from = urlState('inside', 'from', 'cold winter snow', text);
export const to = urlState('inside', 'to', 'hot summer sun', text);
export const strength = urlState('inside', 'strength', 0, number(-2, 2));
/** The pretrained model that is examined. */
export const model = computed(() => (readsText.value ? opened.value?.model : undefined));
/** What can be followed of a model; others than the similarity appear when the model has been asked. */
const found = signal<{ of: PretrainedModel; measures: Measure[] } | null>(null);
effect(() => {
  const of = model.value;
  if (of && page.value === 'inside' && part.value === 'lens' && found.peek()?.of !== of)
    void inTurn(() => measuresOf(of)).then(
      (measures) => {
        found.value = { of, measures };
      },
      () => {},
    );
});
export const measures = computed(() =>
  found.value?.of === model.value ? (found.value?.measures ?? []) : ['similarity' as const],
);
export const measure = withFallback(wantedMeasure, measures, 'similarity');

/** What is wanted, or `otherwise` where it is not to be had. */
function withFallback<T>(wanted: Signal<T>, all: ReadonlySignal<T[]>, otherwise: T): { value: T } {
  const found = computed(() => (all.value.includes(wanted.value) ? wanted.value : otherwise));
  return {
    get value() {
      return found.value;
    },
    set value(next) {
      wanted.value = next;
    },
  };
}
