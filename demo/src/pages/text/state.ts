/** The settings and results of an encoder on the reader's texts, for the shipped model and for the reader's own. */
import { computed, effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { HeadImportance, PretrainedModel } from 'heed';
import { type FocusState, focusCodec, focusState } from '../../components/focus';
import { asFailure, type Failure, heed, inTurn, type OpenModel } from '../../engine/heed';
import {
  type AttentionView,
  type HeadMask,
  type ProjectionView,
  type SimilarityView,
  viewAttention,
  viewProjection,
  viewSimilarity,
} from '../../engine/views';
import { choice, integer, list, optional, text } from '../../state/codecs';
import { latest } from '../../state/latest';
import { type Page, page, urlState } from '../../state/url';

export const maxSentences = 12;

export interface Explorer {
  /** The prefix of the elements' ids. */
  which: string;
  opened: ReadonlySignal<OpenModel | undefined>;
  /** One text per line. */
  written: Signal<string>;
  texts: ReadonlySignal<string[]>;
  linesLeftOut: ReadonlySignal<number>;
  sentence: Signal<number>;
  layer: Signal<number>;
  head: Signal<number>;
  /** Heads switched off, as "layer.head". */
  off: Signal<string[]>;
  view: Signal<'lines' | 'map'>;
  /** The token whose attention is shown; null: all tokens. */
  token: Signal<number | null>;
  /** 0: the embeddings; i: after layer i. */
  step: Signal<number>;
  headMask: ReadonlySignal<HeadMask>;
  attention: Signal<AttentionView | null>;
  similarity: Signal<{ view: SimilarityView; texts: string[] } | null>;
  projection: Signal<ProjectionView | null>;
  importance: Signal<HeadImportance[] | null>;
  /** The focus in the similarity matrix. */
  pair: FocusState;
  failure: Signal<Failure | null>;
}

export function makeExplorer(
  scope: Page,
  which: string,
  opened: ReadonlySignal<OpenModel | undefined>,
  sample: string,
  shown: { layer: number; head: number; token: number | null } = { layer: 0, head: 0, token: null },
): Explorer {
  const written = urlState(scope, 'text', sample, text);
  const lines = computed(() =>
    written.value
      .split('\n')
      .map((line) => line.trim())
      .filter(Boolean),
  );
  const off = urlState<string[]>(scope, 'off', [], list(text));
  return {
    which,
    opened,
    written,
    texts: computed(() => lines.value.slice(0, maxSentences)),
    linesLeftOut: computed(() => Math.max(0, lines.value.length - maxSentences)),
    sentence: urlState(scope, 'sentence', 0, integer(0, maxSentences - 1)),
    layer: urlState(scope, 'layer', shown.layer, integer(0, 99)),
    head: urlState(scope, 'head', shown.head, integer(0, 99)),
    off,
    view: urlState<'lines' | 'map'>(scope, 'view', 'lines', choice('lines', 'map')),
    token: urlState<number | null>(scope, 'token', shown.token, optional(integer(0, 9999))),
    step: urlState(scope, 'step', 99, integer(0, 99)),
    headMask: computed(() => maskOf(opened.value, off.value)),
    attention: signal(null),
    similarity: signal(null),
    projection: signal(null),
    importance: signal(null),
    pair: focusState(urlState(scope, 'pair', {}, focusCodec)),
    failure: signal(null),
  };
}

/** Clamps an index to a list's length: a link may name a layer that the model does not have. */
export const within = (value: number, length: number): number => Math.max(0, Math.min(value, length - 1));

/** Computes the views again when the texts, the model or the settings change while the page is shown. */
export function followExplorer(explorer: Explorer, scope: Page): void {
  const { opened, texts, sentence, headMask, attention, similarity, projection, importance, failure } = explorer;
  const failed = (reason: unknown) => {
    failure.value = asFailure(reason);
  };
  const follow = <Input, View>(
    read: () => Input,
    compute: (model: PretrainedModel, input: Input) => Promise<View>,
    show: (view: View, input: Input) => void,
  ) => {
    const run = latest(
      ({ model, input }: { model: PretrainedModel; input: Input }) => inTurn(() => compute(model, input)),
      (view, { input }) => show(view, input),
      failed,
    );
    effect(() => {
      if (page.value === scope && opened.value && texts.value.length > 0)
        run({ model: opened.value.model, input: read() });
    });
  };
  follow(
    () => ({ text: texts.value[within(sentence.value, texts.value.length)]!, mask: headMask.value }),
    (model, { text, mask }) => viewAttention(model, text, mask),
    (view) => {
      failure.value = null;
      attention.value = view;
    },
  );
  follow(
    () => ({ texts: texts.value, mask: headMask.value }),
    (model, { texts, mask }) => viewSimilarity(model, texts, mask),
    (view, { texts }) => {
      similarity.value = { view, texts };
    },
  );
  follow(
    () => texts.value,
    (model, texts) => viewProjection(heed.value!, model, texts),
    (view) => {
      projection.value = view;
    },
  );
  effect(() => {
    void texts.value;
    void opened.value;
    importance.value = null;
  });
}

function maskOf(opened: OpenModel | undefined, off: string[]): HeadMask {
  if (!opened || off.length === 0) return [];
  const { numLayers, numHeads } = opened.model.config;
  return Array.from({ length: numLayers }, (_, layer) =>
    Array.from({ length: numHeads }, (_, head) => (off.includes(`${layer}.${head}`) ? 0 : 1)),
  );
}
