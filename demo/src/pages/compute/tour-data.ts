/** The tour: why attention has each of its parts, and one thing to try. tests/demo/tour.test.ts computes every step, so that the texts are true. */
import type { Focus } from '../../components/focus';
import { click } from '../../state/device';
import { presets } from './presets';
import type { HandSettings } from './state';

interface TourStep {
  title: string;
  /** The chapter of the course that says more. */
  chapter: string;
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
    chapter: '04-self-attention',
    why: 'Here the weight matrices are identity matrices. Each word’s vector is compared as it is, so words attend to similar words, and the scores are symmetric: that of “red” and “apple” equals that of “apple” and “red”. Learned projections separate what a word looks for, its query, from what it is matched by, its key.',
    settings: { width: 3, queryWeight: identity, keyWeight: identity, valueWeight: identity },
    attempt: {
      label: 'Use different weights for queries and keys',
      settings: { queryWeight: null, keyWeight: null, valueWeight: null, width: 2 },
      see: 'The scores are no longer symmetric: compare “red” with “apple” and “apple” with “red”.',
    },
  },
  {
    title: 'Why scale?',
    chapter: '02-attention-by-hand',
    why: 'The wider the keys, the larger their dot products with queries. The softmax turns large scores into weights near 0 and 1: each output is then almost a single value, and the gradients through the softmax are close to zero. The factor 1/√d keeps scores in the same range for every width.',
    settings: example('unscaled'),
    attempt: {
      label: 'Divide by √8',
      settings: { scale: null },
      see: 'The weights spread over several keys again.',
    },
  },
  {
    title: 'Why several heads?',
    chapter: '05-heads',
    why: 'A head has one weight per query and key, so each query averages the values in one way only. Two heads have separate projections, so one query can attend to different words for different reasons. Their outputs are concatenated and multiplied by W.',
    settings: example('heads'),
    attempt: {
      label: 'Show the other head',
      settings: { head: 1 },
      see: '“apple” attends most to another word than in the first head.',
    },
  },
  {
    title: 'What does a mask do?',
    chapter: '06-masks',
    why: 'A decoder generates text word by word, so a word must not attend to later ones. The mask adds −∞ to their scores; the exponential of −∞ is 0, and so is the weight. Here no word attends to a later one, and the first one attends only to itself.',
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
      see: `The other weights of “apple” grow in proportion: each row still sums to 1. ${click} cells of the mask to hide other keys.`,
    },
  },
  {
    title: 'What do positions add?',
    chapter: '10-positions',
    why: 'Attention compares vectors and ignores their order. “red” occurs twice, and both times its output is the same: rows 1 and 3 of A are equal, and so are the outputs. Information about the word order must be added to the input.',
    at: { query: 0 },
    settings: { ...example('positions'), positions: 'none' },
    attempt: {
      label: 'Add the positional encoding',
      settings: { positions: 'add' },
      see: 'A vector of sines and cosines that depends on the position is added to each word, so rows 1 and 3 of A differ, and so do the outputs.',
    },
  },
  {
    title: 'What does the layer norm do?',
    chapter: '08-normalization',
    why: 'Here the vector of “apple” is ten times as long, as can happen after many layers. Some of its scores exceed 100, and its weights are 0 and 1. Layer norm gives each row mean 0 and variance 1, whatever its length.',
    settings: { x: loud },
    attempt: {
      label: 'Switch on layer norm',
      settings: { layerNorm: true },
      see: 'Set the two tens back to 1: with layer norm, nothing in H changes.',
    },
  },
];
