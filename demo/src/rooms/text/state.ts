/** What one can set about a model and texts; the same for the shipped model and for one's own. */
import { computed, effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import { type FocusState, focusCodec, focusState } from '../../components/focus';
import { asFailure, engine, type Failure } from '../../engine/client';
import type { AttentionView, HeadMask, ModelSummary, ProjectionView, SimilarityView } from '../../engine/models';
import type { Which } from '../../engine/worker';
import { choice, integer, list, optional, text } from '../../state/codecs';
import { latest } from '../../state/latest';
import { type Room, room, urlState } from '../../state/url';

export const maxSentences = 12;

export interface Explorer {
  which: Which;
  model: ReadonlySignal<ModelSummary | undefined>;
  /** One text a line. */
  written: Signal<string>;
  texts: ReadonlySignal<string[]>;
  linesLeftOut: ReadonlySignal<number>;
  sentence: Signal<number>;
  layer: Signal<number>;
  head: Signal<number>;
  /** Heads switched off, as "layer.head". */
  off: Signal<string[]>;
  view: Signal<'lines' | 'map'>;
  /** The token whose attention is shown; null: all. */
  token: Signal<number | null>;
  /** 0: the embeddings; i: after layer i. */
  step: Signal<number>;
  headMask: ReadonlySignal<HeadMask>;
  attention: Signal<AttentionView | null>;
  similarity: Signal<{ view: SimilarityView; texts: string[] } | null>;
  projection: Signal<ProjectionView | null>;
  importance: Signal<number[][] | null>;
  /** Of the similarity matrix. */
  pair: FocusState;
  failure: Signal<Failure | null>;
}

export function makeExplorer(
  scope: Room,
  which: Which,
  model: ReadonlySignal<ModelSummary | undefined>,
  sample: string,
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
    model,
    written,
    texts: computed(() => lines.value.slice(0, maxSentences)),
    linesLeftOut: computed(() => Math.max(0, lines.value.length - maxSentences)),
    sentence: urlState(scope, 'sentence', 0, integer(0, maxSentences - 1)),
    layer: urlState(scope, 'layer', 0, integer(0, 99)),
    head: urlState(scope, 'head', 0, integer(0, 99)),
    off,
    view: urlState<'lines' | 'map'>(scope, 'view', 'lines', choice('lines', 'map')),
    token: urlState<number | null>(scope, 'token', null, optional(integer(0, 9999))),
    step: urlState(scope, 'step', 99, integer(0, 99)),
    headMask: computed(() => maskOf(model.value, off.value)),
    attention: signal(null),
    similarity: signal(null),
    projection: signal(null),
    importance: signal(null),
    pair: focusState(urlState(scope, 'pair', {}, focusCodec)),
    failure: signal(null),
  };
}

/** The place of a choice within what the model has: a link may name more layers than there are. */
export const within = (value: number, length: number): number => Math.max(0, Math.min(value, length - 1));

/** Keeps the views current while the room is open. */
export function followExplorer(explorer: Explorer, scope: Room): void {
  const { which, model, texts, sentence, headMask, attention, similarity, projection, importance, failure } = explorer;
  const failed = (reason: unknown) => {
    failure.value = asFailure(reason);
  };
  const showAttention = latest(
    ([text, mask]: [string, HeadMask]) => engine.attention(which, text, mask),
    (view) => {
      failure.value = null;
      attention.value = view;
    },
    failed,
  );
  const showSimilarity = latest(
    ([texts, mask]: [string[], HeadMask]) => engine.similarity(which, texts, mask),
    (view, [texts]) => {
      similarity.value = { view, texts };
    },
    failed,
  );
  const showProjection = latest(
    (texts: string[]) => engine.projection(which, texts),
    (view) => {
      projection.value = view;
    },
    failed,
  );
  // Read in each effect, so that another model shows at once.
  const open = () => room.value === scope && model.value !== undefined && texts.value.length > 0;
  effect(() => {
    if (open()) showAttention([texts.value[within(sentence.value, texts.value.length)]!, headMask.value]);
  });
  effect(() => {
    if (open()) showSimilarity([texts.value, headMask.value]);
  });
  effect(() => {
    if (open()) showProjection(texts.value);
  });
  effect(() => {
    void texts.value;
    void model.value;
    importance.value = null;
  });
}

function maskOf(model: ModelSummary | undefined, off: string[]): HeadMask {
  if (!model || off.length === 0) return [];
  return Array.from({ length: model.layers }, (_, layer) =>
    Array.from({ length: model.heads }, (_, head) => (off.includes(`${layer}.${head}`) ? 0 : 1)),
  );
}
