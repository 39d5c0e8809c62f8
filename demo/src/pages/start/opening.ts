/**
 * What the first page opens with: a sentence, a head of the bundled model, and its weights, so that there is something to see before the model has loaded.
 * tests/demo/examples.test.ts compares the weights with the model's.
 */

export const sentence = 'The bank gave her a loan';

/** `token` is the index of “bank”. */
export const shown = { layer: 1, head: 7, token: 2 };

export const tokens = ['[CLS]', 'the', 'bank', 'gave', 'her', 'a', 'loan', '[SEP]'];

/** One row per query, in thousandths. */
export const thousandths = [
  [677, 20, 9, 106, 37, 33, 58, 60],
  [45, 51, 349, 131, 107, 27, 279, 12],
  [39, 1, 211, 13, 2, 0, 589, 146],
  [14, 1, 570, 5, 4, 1, 364, 41],
  [26, 3, 600, 71, 10, 6, 283, 1],
  [63, 6, 310, 197, 99, 12, 311, 2],
  [12, 2, 529, 8, 13, 3, 298, 135],
  [0, 788, 0, 2, 13, 196, 0, 0],
];

/** Sentences to try, each with the token to which “bank” attends most in this head. */
export const others = [
  { sentence: 'The bank gave her a flower', most: 'flower' },
  { sentence: 'The bank gave her a rope', most: 'rope' },
  { sentence: 'The river bank was muddy', most: 'mud' },
] as const;
