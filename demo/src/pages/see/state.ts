/** A word in three sentences on its way through the model: which ones, and what is known of them. The examples are built in; anything else needs the model. */
import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import type { PretrainedModel } from 'heed';
import { asFailure, type Failure, firstLayer, isComing, shipped, wanted } from '../../engine/heed';
import type { Reading } from '../../engine/reading';
import { cosine, type DescribedHead, type HeadKind, headKinds, isWord } from '../../engine/senses';
import type { Trace, Weights } from '../../engine/stage';
import { afterFrame } from '../../state/after-frame';
import { integer, list, optional, text } from '../../state/codecs';
import { latest } from '../../state/latest';
import { type Codec, page, urlState } from '../../state/url';
import { mostWords } from '../compute/limits';
import { type Measured, readTrace, readWords } from './measured';
import measured from './measured.json';
import { words as examples } from './words';

interface MeasuredExample {
  sentences: Measured[];
  /** The cosines of the word's vectors before the first layer and after each: in its two meanings, and in two sentences of one meaning. */
  different: number[];
  same: number[];
  /** The cosine of the vectors of the first two sentences. */
  similarity: number;
}

/** The heads that are offered, chosen by measuring all heads of the bundled model. */
export const described = measured.described as DescribedHead[];
export const { layers, heads, width, parameters } = measured;
/** Those of the example that the page opens with; the others follow. */
const builtIn = signal(measured.examples as unknown as readonly MeasuredExample[]);

const [opening] = examples as [(typeof examples)[number]];
export const sentences = ['a', 'b', 'c'].map((name, i) =>
  urlState('see', name, opening.sentences[i]!, text),
) as unknown as readonly [Signal<string>, Signal<string>, Signal<string>];
export const word = urlState('see', 'word', opening.word, text);

/** A token that is chosen in one sentence only, as `sentence.token`. */
interface Place {
  sentence: number;
  token: number;
}
const place: Codec<Place> = {
  read: (value) => {
    const [, sentence, token] = /^([0-2])\.(\d{1,3})$/.exec(value) ?? [];
    return token === undefined ? undefined : { sentence: Number(sentence), token: Number(token) };
  },
  write: ({ sentence, token }) => `${sentence}.${token}`,
};
export const alone = urlState<Place | null>('see', 'at', null, optional(place));

/** The layers whose attention is switched off, counted from 1. */
export const off = urlState<number[]>('see', 'off', [], list(integer(1, layers)));
export const everyLayer: readonly number[] = Array.from({ length: layers }, (_, i) => i + 1);
/** The layer up to which the tokens have risen; 0: they lie at the bottom. */
export const layer = urlState('see', 'layer', layers, integer(0, layers));

/** The mean of all heads, a described one, or any, as `layer.head`, counted from 1. */
export type HeadChoice = 'mean' | HeadKind | `${number}.${number}`;
export const head = urlState<HeadChoice>('see', 'head', 'mean', {
  read: (value) =>
    value === 'mean' || headKinds.some((kind) => kind === value) || placeOf(value as HeadChoice)
      ? (value as HeadChoice)
      : undefined,
  write: (value) => value,
});

/** Layer and head that a choice stands for, counted from 0; undefined: the mean. */
export function placeOf(choice: HeadChoice): { layer: number; head: number } | undefined {
  const known = described.find(({ kind }) => kind === choice);
  if (known) return known;
  const [, a, b] = /^(\d{1,2})\.(\d{1,2})$/.exec(choice) ?? [];
  const found = { layer: Number(a) - 1, head: Number(b) - 1 };
  return found.layer >= 0 && found.layer < layers && found.head >= 0 && found.head < heads ? found : undefined;
}

export const example = computed(() =>
  examples.find((each) => each.sentences.every((sentence, i) => sentence === sentences[i]!.value)),
);
const trimmed = computed(() => sentences.map(({ value }) => value.trim()));
export const isEmpty = computed(() => trimmed.value.slice(0, 2).some((sentence) => sentence === ''));

/** The angle of the query in the first step of the tour, in degrees. */
export const angle = urlState('see', 'turn', 20, integer(0, 360));

const keyOf = (sentence: string, switched: readonly number[]) => `${switched.join(' ')}|${sentence}`;

/** What the page has of an example, by sentence and layers that are off. */
interface Known {
  trace: Trace;
  /** The words nearest to each token, layer by layer. */
  words: (string[][] | undefined)[];
}
const known = computed(() => {
  const found = new Map<string, Known>();
  for (const [i, { sentences: all }] of builtIn.value.entries())
    for (const each of all) {
      const trace = readTrace(each);
      found.set(keyOf(each.sentence, []), { trace, words: each.words.map(readWords) });
      const words = trace.tokens.map((token) => (token === examples[i]!.word ? readWords(each.without) : undefined));
      found.set(keyOf(each.sentence, everyLayer), { trace: { ...trace, off: everyLayer }, words });
    }
  return found;
});

let isAsked = false;
/** Loads what is known of the other examples: while the model is downloaded, or when the reader does anything. */
export function loadExamples(): void {
  if (isAsked) return;
  isAsked = true;
  import('./others.json').then(
    (found) => {
      builtIn.value = [...builtIn.peek(), ...(found.default.examples as unknown as MeasuredExample[])];
    },
    () => {
      isAsked = false; // at the next occasion
    },
  );
}

/** What the model has computed, by the same keys; the words by token, too. */
const traces = signal<ReadonlyMap<string, Trace>>(new Map());
const nearestWords = signal<ReadonlyMap<string, string[][]>>(new Map());
const wordsKey = (key: string, at: number) => `${at} ${key}`;

export const readings = signal<{ texts: string[]; of: Reading[] } | null>(null);
export const failure = signal<Failure | null>(null);
/** The milliseconds that the model takes for a sentence; null: not measured yet. */
export const passTime = signal<number | null>(null);

/** The longest word of a sentence, if it has none that is asked for. */
const longest = (tokens: readonly string[]): number =>
  tokens.reduce((best, token, i) => (isWord(token) && token.length > (tokens[best]?.length ?? 0) ? i : best), -1);

function chosenToken(sentence: number, tokens: readonly string[]): number {
  const { value } = alone;
  if (value?.sentence === sentence && isWord(tokens[value.token] ?? '')) return value.token;
  const at = tokens.indexOf(word.value);
  return at >= 0 && isWord(word.value) ? at : longest(tokens);
}

/** Chooses a token: in all sentences that have it. */
export function choose(sentence: number, token: number): void {
  const { tokens } = views[sentence]!.peek().trace;
  batch(() => {
    const name = tokens[token]!;
    const isShared = views.some((view, i) => i !== sentence && view.peek().trace.tokens.includes(name));
    const isFirst = tokens.indexOf(name) === token;
    if (isShared) word.value = name;
    alone.value = isShared && isFirst ? null : { sentence, token };
    pointed.value = null;
  });
}

/** A token that the reader points at, which is shown as if it were chosen. */
export const pointed = signal<Place | null>(null);

export interface View {
  trace: Trace;
  /** The token whose weights and words are shown; -1: there is no word. */
  at: number;
  words: string[][] | undefined;
  /** Whether this is still the picture of what was there before, because the model is being loaded or is computing. */
  isOutdated: boolean;
}

const last: View[] = [];
/** What is shown of each sentence. */
export const views: readonly ReadonlySignal<View>[] = sentences.map((_, i) =>
  computed(() => {
    const key = keyOf(trimmed.value[i]!, off.value);
    const own = known.value.get(key);
    const trace = traces.value.get(key) ?? own?.trace;
    if (!trace || trimmed.value[i] === '') return { ...last[i]!, isOutdated: true };
    const isPointed = pointed.value?.sentence === i && isWord(trace.tokens[pointed.value.token] ?? '');
    const at = isPointed ? pointed.value!.token : chosenToken(i, trace.tokens);
    last[i] = { trace, at, words: own?.words[at] ?? nearestWords.value.get(wordsKey(key, at)), isOutdated: false };
    return last[i];
  }),
);
for (const [i, sentence] of opening.sentences.entries()) {
  const { trace, words } = known.peek().get(keyOf(sentence, []))!;
  const at = trace.tokens.indexOf(opening.word);
  last[i] = { trace, at, words: words[at], isOutdated: false };
}
export const isOutdated = computed(() => views.some((view) => view.value.isOutdated));
/** Whether only the first layer of what one typed is there, because the others are being loaded. */
export const isPartial = computed(() =>
  views.slice(0, 2).some(({ value: { trace } }) => trace.means.length < layers && trace.all !== undefined),
);

/** Whether “Compute” can show the weights of a sentence: the model is there and has all of its heads, and the sentence is short. */
export const isComputable = ({ all, tokens }: Trace): boolean =>
  shipped.value !== undefined && all !== undefined && tokens.length <= mostWords;

/** What the ribbons of a sentence show. */
export interface Picture extends Pick<View, 'trace' | 'at'> {
  layer: number;
  /** Whether a click on a ribbon computes its weight. */
  isOpen: boolean;
  /** The weights of each layer, from the first. */
  rows: readonly (readonly number[] | undefined)[];
}
/** The ribbons are many, so they are drawn after the words and the weights beside the tokens. */
export const pictures: readonly ReadonlySignal<Picture>[] = views.slice(0, 2).map((view) => {
  const trace = computed(() => view.value.trace);
  const at = computed(() => view.value.at);
  return afterFrame(
    computed(() => {
      const shown = { trace: trace.value, at: at.value };
      const rows = everyLayer.map((number) => rowOf(shown, number));
      return { ...shown, layer: layer.value, isOpen: isComputable(shown.trace), rows };
    }),
  );
});

/** The weights with which a token attends in a layer, counted from 1; undefined if they are not known or attention is off. */
export function rowOf({ trace, at }: Pick<View, 'trace' | 'at'>, number: number): readonly number[] | undefined {
  if (at < 0 || trace.off.includes(number)) return undefined;
  const row = weightsOf(trace, number)?.[at];
  return row && row.length > 0 ? row : undefined;
}

function weightsOf(trace: Trace, number: number): Weights | undefined {
  const chosen = placeOf(head.value);
  if (chosen?.layer !== number - 1) return trace.means[number - 1];
  return trace.all?.[number - 1]?.[chosen.head] ?? trace.heads[head.value as HeadKind];
}

export interface Numbers {
  different: readonly number[];
  same: readonly number[] | undefined;
}
/** The cosines of the chosen word's vectors; undefined if they are not known yet. */
export const numbers = computed((): Numbers | undefined => {
  const [a, b, c] = views.map((view) => view.value) as [View, View, View];
  const found = builtIn.value.find(({ sentences: all }) =>
    all.every(({ sentence }, i) => sentence === views[i]!.value.trace.sentence),
  );
  const isExample = found && [a, b, c].every(({ trace, at }) => trace.tokens[at] === example.value?.word);
  if (isExample && off.value.length === 0) return found;
  const states = [a, b, c].map(({ trace, at }) => trace.states?.[at]);
  const control = example.value?.control ?? 0;
  const between = (one: Float32Array[] | undefined, other: Float32Array[] | undefined) =>
    one && other && one.map((vector, i) => cosine(vector, other[i]!));
  const different = between(states[0], states[1]);
  return different && { different, same: between(states[control], states[2]) };
});
const computedSimilarity = signal<number | null>(null);
/** The cosine of the vectors of the first two sentences, the last that is known. */
export const similarity = computed(() => {
  const found = builtIn.value.find(({ sentences: all }) => [0, 1].every((i) => all[i]!.sentence === trimmed.value[i]));
  return found?.similarity ?? computedSimilarity.value ?? builtIn.value[0]!.similarity;
});

interface Input {
  model: PretrainedModel;
  texts: string[];
  switched: number[];
}

/** What computes; loaded when the model is there. */
const loadLive = () => import('./live');

const run = latest(
  async (input: Input) => {
    const live = await loadLive();
    const missing = input.texts.filter((text) => {
      const { means } = traces.peek().get(keyOf(text, input.switched)) ?? { means: [] };
      return text !== '' && means.length < input.model.config.numLayers;
    });
    const { found, milliseconds } = await live.traceAll(input.model, missing, input.switched, described);
    const isKnown = example.peek() !== undefined;
    const rest = missing.length > 0 && !isKnown ? await live.read(input.model, input.texts.slice(0, 2)) : undefined;
    return { found, rest, milliseconds };
  },
  ({ found, rest, milliseconds }, { model, texts, switched }) =>
    batch(() => {
      failure.value = null;
      if (found.length > 0 && model.config.numLayers === layers) passTime.value = milliseconds / found.length;
      if (found.length > 0)
        traces.value = new Map([
          ...recent(traces.peek(), 60),
          ...found.map((each) => [keyOf(each.sentence, switched), each] as const),
        ]);
      if (rest) {
        readings.value = { texts: texts.slice(0, 2), of: rest.readings };
        computedSimilarity.value = rest.similarity;
      }
    }),
  (reason) => {
    failure.value = asFailure(reason);
  },
);

/** Asks for the words of the tokens that are shown. */
const find = latest(
  async ({ model, asked }: { model: PretrainedModel; asked: { key: string; at: number }[] }) => {
    const live = await loadLive();
    const found: [string, string[][]][] = [];
    for (const { key, at } of asked) {
      const { tokens, states } = traces.peek().get(key) ?? {};
      if (tokens && states) found.push([wordsKey(key, at), await live.wordsOf(model, tokens[at]!, states[at]!)]);
    }
    return found;
  },
  (found) => {
    nearestWords.value = new Map([...recent(nearestWords.peek(), 200), ...found]);
  },
  (reason) => {
    failure.value = asFailure(reason);
  },
);

const recent = <T>(map: ReadonlyMap<string, T>, most: number) => [...map].slice(-most);

export function followSee(): void {
  effect(() => {
    if (page.value !== 'see') return;
    const texts = trimmed.value;
    if (isComing.value || example.value !== examples[0]) loadExamples();
    const isKnown = texts.every((sentence) => known.value.has(keyOf(sentence, off.value)));
    if (isKnown) readings.value = null;
    else if (example.value === undefined || off.value.length % layers > 0) wanted.value = true; // also for readers who save data
    const whole = shipped.value?.model;
    const model = whole ?? (isKnown ? undefined : firstLayer.value);
    if (model) run({ model, texts, switched: off.value });
  });
  effect(() => {
    const model = shipped.value?.model;
    if (page.value !== 'see' || !model) return;
    const asked = views.flatMap(({ value: { trace, at, words, isOutdated } }) =>
      words || isOutdated || at < 0 || trace.states?.[at]?.length !== layers + 1
        ? []
        : [{ key: keyOf(trace.sentence, trace.off), at }],
    );
    if (asked.length > 0) find({ model, asked });
  });
}
