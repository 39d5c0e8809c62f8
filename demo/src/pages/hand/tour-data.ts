/** The tour: why attention has each of its parts, and one thing to try. tests/demo/tour.test.ts computes every step, so that the texts are true. */
import type { Focus } from '../../components/focus';
import { presets } from './presets';
import type { HandSettings } from './state';

interface TourStep {
  title: string;
  why: string;
  /** The focus at the start; default: the third query. */
  at?: Focus;
  settings: Partial<HandSettings>;
  /** What the button says, the change that it makes, and what to see then. */
  attempt: { label: string; settings: Partial<HandSettings>; see: string };
}

const identity = [
  [1, 0, 0],
  [0, 1, 0],
  [0, 0, 1],
];
/** “apple” ten times as long. */
const loud = [
  [1, 0, 0],
  [0, 1, 0],
  [10, 10, 0],
  [0, 0, 1],
];

/** The settings of an example of the page. */
const example = (wanted: string): Partial<HandSettings> => presets.find(({ id }) => id === wanted)!.settings;

export const steps: readonly TourStep[] = [
  {
    title: 'Why project?',
    why: 'Here the weight matrices change nothing: each word is compared as it is and attends to what resembles it, and the scores are symmetric: “red” matters to “apple” as much as “apple” to “red”. Learned projections separate what a word looks for, its query, from what it is found by, its key.',
    settings: { width: 3, queryWeight: identity, keyWeight: identity, valueWeight: identity },
    attempt: {
      label: 'Give queries and keys weights of their own',
      settings: { queryWeight: null, keyWeight: null, valueWeight: null, width: 2 },
      see: 'The scores are no longer symmetric: compare “red” with “apple” and “apple” with “red”.',
    },
  },
  {
    title: 'Why scale?',
    why: 'The wider the keys, the larger their dot products. The softmax turns large scores into weights near 0 and 1: each query reads almost one value only, and where weights are that extreme, hardly any gradient gets through. The factor 1/√d keeps scores in the same range for every width.',
    settings: example('unscaled'),
    attempt: {
      label: 'Divide by √8',
      settings: { scale: null },
      see: 'The weights spread over several keys again.',
    },
  },
  {
    title: 'Why several heads?',
    why: 'A head has one weight per query and key, and averages all values with them: it can look for one thing at a time. Two heads have projections of their own and look for two things. Their outputs are put side by side, and W mixes them.',
    settings: example('heads'),
    attempt: {
      label: 'Show the other head',
      settings: { head: 1 },
      see: '“apple” attends most to another word than in the first head.',
    },
  },
  {
    title: 'What does a mask do?',
    why: 'A decoder writes word by word and must not look at words that it has yet to write. The mask adds −∞ to their scores; the exponential of that is 0, and so is the weight. Here no word sees a later one, and the first one sees only itself.',
    settings: example('causal'),
    attempt: {
      label: 'Hide “red” from “apple”, too',
      settings: {
        painted: [
          [1, 1, 1, 1],
          [1, 1, 1, 1],
          [0, 1, 1, 1],
          [1, 1, 1, 1],
        ],
      },
      see: 'The other weights of “apple” grow in proportion: each row still sums to 1. Click cells of the mask to hide other keys.',
    },
  },
  {
    title: 'What do positions add?',
    why: 'Attention compares contents and knows no order. “red” occurs twice, and both times its output is the same: rows 1 and 3 of H are equal. The word order has to come with the input.',
    at: { query: 0 },
    settings: { ...example('positions'), positions: 'none' },
    attempt: {
      label: 'Add the positional encoding',
      settings: { positions: 'add' },
      see: 'A vector of waves that depends on the position is added to each word, and rows 1 and 3 of H differ.',
    },
  },
  {
    title: 'What does the layer norm do?',
    why: 'The vector of “apple” has become ten times as long, as can happen after many layers. Some of its scores are beyond 100, and its weights are 0 and 1. Layer norm gives each row mean 0 and variance 1, whatever its length.',
    settings: { x: loud },
    attempt: {
      label: 'Switch on layer norm',
      settings: { layerNorm: true },
      see: 'Set the two tens back to 1: with layer norm, nothing in H changes.',
    },
  },
];
