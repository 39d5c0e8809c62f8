/** What the lens opens with, and its examples. Their claims hold for the bundled model; tests/demo/lens.test.ts fails where they no longer do. */
import type { PatchGridOptions } from 'heed/lens';
import type { Example } from '../../../components/examples';

/** What is patched: the sites of one column of the grid. */
export type Over = PatchGridOptions['over'];

export interface LensExample extends Example {
  first: string;
  second: string;
  over: Over;
}

export const opening: LensExample = {
  id: 'full',
  name: 'Full, empty',
  notice:
    'The sentences are opposites, but their similarity is above 0.8. One head keeps them apart more than any other: switch off layer 6, head 10, and the similarity rises by more than 0.08.',
  first: 'The glass is full.',
  second: 'The glass is empty.',
  over: 'positions',
};

export const examples: readonly LensExample[] = [
  opening,
  {
    id: 'one-word',
    name: 'One other word',
    notice:
      'The sentences differ in one word, and the difference stays at its position: in every layer, patching the position of “cat” makes the vectors nearly the same, and no other position changes the similarity by more than 0.01.',
    first: 'The cat sat on the mat.',
    second: 'The dog sat on the mat.',
    over: 'positions',
  },
  {
    id: 'order',
    name: 'Who bites whom',
    notice:
      'The sentences have the same words in another order: their similarity is above 0.97, and no single head changes it by more than 0.005. Word order has little effect in this small model.',
    first: 'The dog bit the man.',
    second: 'The man bit the dog.',
    over: 'heads',
  },
];

/** Examples for the model that “Watch it learn” trains with its initial settings. */
export const trainedNotice =
  'Which head reverses the sequence? With the initial settings of “Watch it learn”, after 200 steps, it is layer 2, head 1: without it, fewer than 90 % of the answers are right; without any other single head, more than 95 %. Without both heads of layer 2, fewer than 35 % are right.';
