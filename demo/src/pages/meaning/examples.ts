/**
 * What “Meaning” and “Inside” open with. The examples hold for the bundled model, and tests/demo/examples.test.ts fails where they no longer do: choose others
 * when the model changes.
 */

export const sentences = [
  'The bank lent us the money this morning.',
  'They walked along the river bank.',
  'He borrowed money to buy a house.',
  'The boat drifted down the stream.',
];

/** In the first sentence, “bank” attends most to “lent” in this head. `token` is the index of “bank”. */
export const shownHead = { layer: 5, head: 7, token: 2 };
export const connected = ['bank', 'lent'] as const;

/** Descriptions, each with the word that the dictionary finds first. */
export const descriptions: readonly (readonly [description: string, word: string])[] = [
  ['person who studies insects', 'entomologist'],
  ['a doctor who treats children', 'pediatrician'],
  ['the day before today', 'yesterday'],
  ['a person who repairs pipes', 'plumber'],
];
