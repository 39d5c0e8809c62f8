/** The lectures' examples, each with what to look for. */
import type { Focus } from '../../components/focus';
import { type HandSettings, setAll } from './state';

interface Preset {
  id: string;
  name: string;
  /** What to look for. */
  notice: string;
  /** What is lit at first, if not the third query. */
  at?: Focus;
  settings: Partial<HandSettings>;
}

export const presets: Preset[] = [
  {
    id: 'words',
    name: 'Four words',
    notice:
      'Four words as vectors; “apple” is “red” plus “round”. Point at a row of Q: which keys does it find, and which values does it mix?',
    settings: {},
  },
  {
    id: 'shuffled',
    name: 'Shuffled keys',
    notice:
      'Keys and values stand in another order, together. The columns of the scores move with them; the output H is the same as before: attention looks up by content, not by place.',
    settings: { order: [2, 0, 3, 1] },
  },
  {
    id: 'reversed',
    name: 'Reversed words',
    at: { query: 1 },
    notice:
      'The same words backwards. Each word’s output is what it was, only in the new place: without positions, self-attention cannot tell an order.',
    settings: {
      words: ['sky', 'apple', 'round', 'red'],
      x: [
        [0, 0, 1],
        [1, 1, 0],
        [0, 1, 0],
        [1, 0, 0],
      ],
    },
  },
  {
    id: 'positions',
    name: 'Positions',
    notice:
      '“red” stands here twice. The added positions tell the two apart, so their outputs differ. Set positions to “none”, and the two rows of H become equal.',
    settings: {
      words: ['red', 'apple', 'red', 'sky'],
      x: [
        [1, 0, 0],
        [1, 1, 0],
        [1, 0, 0],
        [0, 0, 1],
      ],
      seed: 110,
      positions: 'add',
    },
  },
  {
    id: 'unscaled',
    name: 'Without 1/√d',
    notice:
      'Wide keys make large scores. Unscaled, the softmax is all or nothing and its gradients vanish. Switch “Scale by 1/√d” on and watch the weights spread.',
    settings: {
      width: 8,
      scale: 1,
      seed: 2816,
    },
  },
  {
    id: 'causal',
    name: 'No look-ahead',
    notice: 'Query i sees keys 0 to i only. The first word can attend to itself alone: its weight is 1.',
    at: { query: 1 },
    settings: { causal: true },
  },
  {
    id: 'padding',
    name: 'Padding',
    notice:
      'The last two keys are placeholders. They get no weight, and what stands in them cannot change the output: try.',
    settings: {
      words: ['red', 'round', 'apple', 'sky', '·', '·'],
      x: [
        [1, 0, 0],
        [0, 1, 0],
        [1, 1, 0],
        [0, 0, 1],
        [0, 0, 0],
        [0, 0, 0],
      ],
      padding: 2,
    },
  },
  {
    id: 'cross',
    name: 'Audio and text',
    at: { query: 0 },
    notice:
      'Cross-attention: three pieces of text ask, six frames of audio answer, and each finds the frames in which it is heard. Lengths and widths of the two sequences differ; only queries and keys must agree in width.',
    settings: {
      words: ['hel', 'lo', '?'],
      x: [
        [1, 0, 0],
        [0, 1, 0],
        [0, 0, 1],
      ],
      sources: ['0.0 s', '0.1 s', '0.2 s', '0.3 s', '0.4 s', '0.5 s'],
      y: [
        [0.1, 0, 0.1, 0],
        [0.9, 0.3, 0.1, 0],
        [1, 0.4, 0.2, 0.1],
        [0.2, 0.2, 1, 0.4],
        [0.1, 0.1, 0.9, 0.8],
        [0, 0.1, 0.1, 1],
      ],
      seed: 947,
    },
  },
  {
    id: 'heads',
    name: 'Two heads',
    notice:
      'Two heads, each with projections of its own, look at different things; their outputs stand side by side and are mixed by one more matrix.',
    settings: { heads: 2, seed: 498 },
  },
];

export function choosePreset(id: string): void {
  const preset = presets.find((candidate) => candidate.id === id);
  if (preset) setAll({ ...preset.settings, preset: id }, preset.at);
}
