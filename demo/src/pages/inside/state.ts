/** The settings and results of the page “Inside” on the reader's sentences; those of the lens are in lens/. */
import { effect, signal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { asFailure, type Failure, heed, inTurn } from '../../engine/heed';
import { type AttentionView, type ProjectionView, viewAttention, viewProjection } from '../../engine/views';
import { choice, type HeadPlace, headPlace, integer, optional } from '../../state/codecs';
import { latest } from '../../state/latest';
import { type Codec, page, urlState } from '../../state/url';
import { shownHead } from '../meaning/examples';
import { opened, readsText } from '../model/choice';
import { maxSentences, texts, within } from '../sentences/state';

const state = <T>(name: string, initial: T, codec: Codec<T>) => urlState('inside', name, initial, codec);

/** The part of the page that is shown. */
export const part = state<'heads' | 'states' | 'lens'>('part', 'heads', choice('heads', 'states', 'lens'));
export const sentence = state('sentence', 0, integer(0, maxSentences - 1));
/** The head that is shown large. */
export const large = state<HeadPlace>('head', { layer: shownHead.layer, head: shownHead.head }, headPlace);
export const view = state<'lines' | 'map'>('view', 'lines', choice('lines', 'map'));
/** The token whose attention is shown; null: all tokens. */
export const token = state<number | null>('token', shownHead.token, optional(integer(0, 9999)));
/** 0: the embeddings; i: after layer i. */
export const step = state('step', 99, integer(0, 99));

export const attention = signal<AttentionView | null>(null);
export const projection = signal<ProjectionView | null>(null);
export const failure = signal<Failure | null>(null);

/** Computes the views again when the texts, the model or the settings change while they are shown. */
export function followInside(): void {
  const follow = <Input, View>(
    read: () => Input | null,
    compute: (model: PretrainedModel, input: Input) => Promise<View>,
    show: (view: View) => void,
  ) => {
    const run = latest(
      ({ model, input }: { model: PretrainedModel; input: Input }) => inTurn(() => compute(model, input)),
      (view) => {
        failure.value = null;
        show(view);
      },
      (reason) => {
        failure.value = asFailure(reason);
      },
    );
    effect(() => {
      if (page.value !== 'inside' || !opened.value || !readsText.value || texts.value.length === 0) return;
      const input = read();
      if (input !== null) run({ model: opened.value.model, input });
    });
  };
  follow(
    () => (part.value === 'heads' ? texts.value[within(sentence.value, texts.value.length)]! : null),
    viewAttention,
    (view) => {
      attention.value = view;
    },
  );
  follow(
    () => (part.value === 'states' ? texts.value : null),
    (model, texts) => viewProjection(heed.value!, model, texts),
    (view) => {
      projection.value = view;
    },
  );
}
