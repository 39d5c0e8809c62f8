/**
 * What the first page opens with: a sentence, a head of the bundled model, and its weights, so that there is something to see before the model has loaded.
 * tests/demo/examples.test.ts compares the weights with the model's.
 */

export const sentence = 'The bank lent her money';

/** `token` is the index of “bank”. */
export const shown = { layer: 1, head: 7, token: 2 };

export const tokens = ['[CLS]', 'the', 'bank', 'lent', 'her', 'money', '[SEP]'];

/** One row per query, in thousandths. */
export const thousandths = [
  [681, 58, 19, 18, 53, 63, 108],
  [30, 2, 199, 281, 6, 472, 10],
  [144, 1, 37, 485, 5, 18, 310],
  [402, 3, 36, 238, 6, 34, 281],
  [75, 1, 372, 438, 1, 109, 5],
  [8, 1, 576, 324, 3, 18, 69],
  [0, 942, 1, 1, 54, 2, 0],
];

/** Sentences to try, each with the token to which “bank” attends most in this head. */
export const others = [
  { sentence: 'The bank gave her a flower', most: 'flower' },
  { sentence: 'The bank gave her a rope', most: 'rope' },
  { sentence: 'The river bank was muddy', most: 'mud' },
] as const;
