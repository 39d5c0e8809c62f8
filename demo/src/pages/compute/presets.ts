/** Examples, each with a hint of what to look for. */
import type { Example } from '../../components/examples';
import type { Focus } from '../../components/focus';
import { pointAt } from '../../state/device';
import type { HandSettings } from './state';

interface Preset extends Example {
  /** The focus at the start; default: the third query. */
  at?: Focus;
  settings: Partial<HandSettings>;
}

export const presets: Preset[] = [
  {
    id: 'words',
    name: 'Four words',
    notice: `Four words as vectors; “apple” is the sum of “red” and “round”. ${pointAt} a cell of A to see where its number comes from.`,
    settings: {},
  },
  {
    id: 'shuffled',
    name: 'Shuffled keys',
    notice:
      'Keys and values are in a different order. The columns of the scores move with them, but the output H does not change: attention depends on the contents of the keys, not on their order.',
    settings: { order: [2, 0, 3, 1] },
  },
  {
    id: 'reversed',
    name: 'Reversed words',
    at: { query: 1 },
    notice:
      'The same words in reverse order. Each word keeps its output, at its new position: without positional encoding, self-attention ignores word order.',
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
      '“red” occurs twice. The added positional encoding distinguishes the two, so their outputs differ. Set the positions to “none” and the two rows of H become equal.',
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
      'Wide keys lead to large scores. Without scaling, the softmax saturates and its gradients vanish. Switch on “Scale by 1/√d” and the weights spread out.',
    settings: {
      width: 8,
      scale: 1,
      seed: 2816,
    },
  },
  {
    id: 'causal',
    name: 'No look-ahead',
    notice:
      'Each query can only attend to its own position and earlier ones. The first word can only attend to itself, with weight 1.',
    at: { query: 1 },
    settings: { causal: true },
  },
  {
    id: 'padding',
    name: 'Padding',
    notice:
      'The last two keys are padding. Their weights are zero, so their contents cannot change the output of the words. Edit them to check.',
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
      'Cross-attention: the queries come from three pieces of text, the keys and values from six frames of audio, and each piece attends most to the frames in which it is spoken. The two sequences may differ in length and width; only queries and keys must have the same width.',
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
      'Two heads with separate projections attend to different words. Their outputs are concatenated and multiplied by one more matrix.',
    settings: { heads: 2, seed: 498 },
  },
];
