/** The settings of the page “Lens”; they are part of the link. */
import { computed, effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { inTurn, own, shipped } from '../../engine/heed';
import { choice, list, number, text } from '../../state/codecs';
import { completeState, page, urlState } from '../../state/url';
import { loadedParts } from '../learning/state';
import { type Measure, measuresOf } from './measures';
import { type Over, opening } from './presets';

export const first = urlState('lens', 'text', opening.first, text);
export const second = urlState('lens', 'other', opening.second, text);
/** Heads switched off, as "layer.head". */
export const off = urlState<string[]>('lens', 'off', [], list(text));
export const over = urlState<Over>('lens', 'over', opening.over, choice('heads', 'positions', 'blocks'));
/** What is followed while heads are switched off and activations are patched. */
const wantedMeasure = urlState<Measure>('lens', 'measure', 'similarity', choice('similarity', 'word', 'label'));
/** The two ends of the direction of steering, and how far along it. */
export const from = urlState('lens', 'from', 'cold winter snow', text);
export const to = urlState('lens', 'to', 'hot summer sun', text);
export const strength = urlState('lens', 'strength', 0, number(-2, 2));
export type Source = 'bundled' | 'own' | 'trained';
const wantedSource = urlState<Source>('lens', 'model', 'bundled', choice('bundled', 'own', 'trained'));
completeState('lens');

/** Whether each model is there to be examined. The one of “Learning” is from when that page is opened. */
const isThere: Record<Source, () => boolean> = {
  bundled: () => true,
  own: () => own.value?.model.config.hasTokenizer === true,
  trained: () => loadedParts.value.tasks,
};
export const sources = computed(() => (Object.keys(isThere) as Source[]).filter((source) => isThere[source]()));
/** A link may ask for a model that this tab does not have. */
export const source = withFallback(wantedSource, sources, 'bundled');
/** The pretrained model that is examined. */
export const model = computed(() => (source.value === 'own' ? own.value?.model : shipped.value?.model));
/** What can be followed of a model; others than the similarity appear when the model has been asked. */
const found = signal<{ of: PretrainedModel; measures: Measure[] } | null>(null);
effect(() => {
  const of = model.value;
  if (of && page.value === 'lens' && found.peek()?.of !== of)
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
