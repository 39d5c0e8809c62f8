/** The settings of the page “Compute”, and the input of the computation that follows from them. */
import { batch, computed, type Signal } from '@preact/signals';
import { type Focus, focusCodec, focusState } from '../../components/focus';
import type { Matrix, StepsInput } from '../../engine/hand';
import { hash, randomMatrix } from '../../engine/random';
import { choice, flag, integer, list, matrix, number, optional, text, word } from '../../state/codecs';
import { type Codec, reset, urlState } from '../../state/url';
import { mostWords } from './limits';

/** What readers can set, except that links may have wider heads, as those of models. */
export const limits = { words: mostWords, features: 12, width: 8, linkedWidth: 64, heads: 4, entry: 1000 };

const state = <T>(name: string, initial: T, codec: Codec<T>): Signal<T> => urlState('compute', name, initial, codec);
const optionalMatrix = optional(matrix(-limits.entry, limits.entry));
const words = list(word, '|');
const someWords: Codec<string[]> = { ...words, read: (value) => (value ? words.read(value) : undefined) };

export const hand = {
  preset: state('preset', 'words', text),
  words: state('words', ['red', 'round', 'apple', 'sky'], someWords),
  x: state<Matrix>(
    'x',
    [
      [1, 0, 0],
      [0, 1, 0],
      [1, 1, 0],
      [0, 0, 1],
    ],
    matrix(-limits.entry, limits.entry),
  ),
  /** The names and vectors of the second sequence, for cross-attention. */
  sources: state('sources', [], words),
  y: state<Matrix | null>('y', null, optionalMatrix),
  seed: state('seed', 6, integer(0, 9999)),
  queryWeight: state<Matrix | null>('wq', null, optionalMatrix),
  keyWeight: state<Matrix | null>('wk', null, optionalMatrix),
  valueWeight: state<Matrix | null>('wv', null, optionalMatrix),
  outputWeight: state<Matrix | null>('wo', null, optionalMatrix),
  heads: state('heads', 1, integer(1, limits.heads)),
  width: state('width', 2, integer(1, limits.linkedWidth)),
  head: state('head', 0, integer(0, limits.heads - 1)),
  scale: state<number | null>('scale', null, optional(number(0, 4))),
  order: state<number[] | null>('order', null, optional(list(integer(0, limits.words - 1)))),
  causal: state('causal', false, flag),
  padding: state('padding', 0, integer(0, limits.words)),
  window: state<number | null>('window', null, optional(integer(0, limits.words))),
  painted: state<Matrix | null>('mask', null, optional(matrix(0, 1))),
  positions: state<'none' | 'add' | 'concat'>('positions', 'none', choice('none', 'add', 'concat')),
  base: state('base', 10000, integer(2, 100000)),
  layerNorm: state('norm', false, flag),
  dropout: state('dropout', 0, number(0, 0.9)),
  draw: state('draw', 1, integer(1, 9999)),
};
export type HandState = typeof hand;

export type HandSettings = { [Name in keyof HandState]: HandState[Name] extends Signal<infer T> ? T : never };

/** Whether the settings and all matrices are shown. */
export const isOpen = state('all', false, flag);

/** Some cells are highlighted from the start, to show what the page does. */
const at = state<Focus>('at', { query: 2 }, focusCodec);
export const focus = focusState(at);

/** Resets all settings, then applies these. */
export function setAll(settings: Partial<HandSettings>, focused?: Focus): void {
  batch(() => {
    reset([...Object.values(hand), at] as Signal<unknown>[]);
    for (const [name, value] of Object.entries(settings))
      (hand[name as keyof HandState] as Signal<unknown>).value = value;
    focus.hovered.value = null;
    if (focused) at.value = focused;
  });
}

const positionDim = 4;

/** The settings made consistent with each other, since a link may contain anything. */
export const input = computed((): StepsInput => {
  const x = rectangle(hand.x.value, hand.words.value);
  const y = hand.y.value && rectangle(hand.y.value, hand.sources.value);
  const keys = (y ?? x).length;
  const mode = hand.positions.value;
  const widthOf = (rows: Matrix) => rows[0]!.length + (mode === 'concat' ? positionDim : 0);
  const heads = hand.heads.value;
  const joined = heads * hand.width.value;
  const seed = hand.seed.value;
  const order = hand.order.value;
  const isPermutation = order?.length === keys && new Set(order).size === keys && Math.max(...order) < keys;
  return {
    queryNames: named(hand.words.value, x.length),
    keyNames: named(y ? hand.sources.value : hand.words.value, keys),
    x,
    y,
    queryWeight: fitting(hand.queryWeight.value, widthOf(x), joined, seed),
    keyWeight: fitting(hand.keyWeight.value, widthOf(y ?? x), joined, seed + 1000),
    valueWeight: fitting(hand.valueWeight.value, widthOf(y ?? x), joined, seed + 2000),
    outputWeight: heads > 1 ? fitting(hand.outputWeight.value, joined, widthOf(x), seed + 3000) : null,
    heads,
    order: isPermutation ? order! : Array.from({ length: keys }, (_, i) => i),
    positions: { mode, dim: positionDim, base: hand.base.value },
    layerNorm: hand.layerNorm.value,
    scale: hand.scale.value,
    causal: hand.causal.value,
    realKeys: Math.max(0, keys - hand.padding.value),
    window: hand.window.value,
    painted: fits(hand.painted.value, x.length, keys) ? hand.painted.value : null,
    dropout: { p: hand.dropout.value, seed: hand.draw.value },
  };
});

/** Replaces the words. Each takes over the vector of the word in its position; additional words get a vector of their own. */
export function setWords(list: string[]): void {
  const named = list.slice(0, limits.words);
  if (named.length === 0) return;
  const features = hand.x.value[0]?.length ?? 3;
  batch(() => {
    hand.x.value = named.map((word, i) => hand.x.value[i] ?? randomMatrix(1, features, hash(word))[0]!);
    hand.words.value = named;
    hand.order.value = null;
  });
}

/** A link may give more rows than names. */
const named = (names: string[], length: number): string[] =>
  Array.from({ length }, (_, i) => names[i] ?? String(i + 1));

function rectangle(rows: Matrix, names: string[]): Matrix {
  const height = Math.min(limits.words, Math.max(1, names.length));
  const width = Math.min(limits.features, rows[0]?.length || 1);
  return Array.from({ length: height }, (_, i) => {
    const row = rows[i] ?? randomMatrix(1, width, hash(names[i] ?? ''))[0]!;
    return row.slice(0, width);
  });
}

const fits = (rows: Matrix | null, height: number, width: number): boolean =>
  rows?.length === height && rows[0]!.length === width;

const fitting = (rows: Matrix | null, height: number, width: number, seed: number): Matrix =>
  fits(rows, height, width) ? rows! : randomMatrix(height, width, seed);
