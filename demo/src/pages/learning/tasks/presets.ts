/** Examples, each with a sentence that says what to look for. tests/demo/learning.test.ts trains each of them, so that the sentences are true. */
import type { Example } from '../../../components/examples';
import type { LessonSettings } from '../state';

interface Preset extends Example {
  settings: Partial<LessonSettings>;
}

/** Keys so wide that the scores are large without the scale. */
const wide = { heads: '1', width: '128' } as const;

export const presets: Preset[] = [
  {
    id: 'reverse',
    name: 'Reverse',
    notice:
      'Each answer is the digit at the mirrored position. At first the model only learns which digits occur; then the accuracy rises to 99 % within about 140 steps, while the weights of layer 2 concentrate on the antidiagonal.',
    settings: {},
  },
  {
    id: 'positions',
    name: 'Without positions',
    notice:
      'Without positions, permuting the input permutes the answers in the same way, so reversing cannot be learned. The best guess is the most frequent of the other digits, which is right in 29 % of cases; the accuracy does not rise above that.',
    settings: { positions: false },
  },
  {
    id: 'scale',
    name: 'Without 1/√d',
    notice:
      'With keys of width 128 the scores are large, and the softmax saturates: from step 30 on, over 90 % of a query’s weight is on one key on average, the gradients of queries and keys are mostly less than a third of those with the scale, and after 150 steps the accuracy is still below 20 %. With “Scale by 1/√d”, it is 98 % after about 100 steps.',
    settings: { ...wide, scale: false },
  },
  {
    id: 'norm',
    name: 'Without layer norm',
    notice:
      'Two layers also learn to reverse without layer norm, in about as many steps. They even learn at a rate of 0.03, at which the model with layer norm after each block is still below 20 % after 150 steps: such models need a rate that rises slowly at first.',
    settings: { layerNorm: false },
  },
  {
    id: 'dropout',
    name: 'Dropout',
    notice:
      'Dropout sets a fifth of the entries to zero, different ones in each step. Learning takes longer (99 % after about 180 steps) and reaches the same accuracy, which is measured without dropout. No sequence is seen twice, so there is nothing to overfit.',
    settings: { dropout: 0.2 },
  },
  {
    id: 'head',
    name: 'One head',
    notice:
      'Each answer depends on one position, so one head is enough: the accuracy is 99 % after about 130 steps. Compare the weights of layer 2 with those of two heads.',
    settings: { heads: '1' },
  },
  {
    id: 'sort',
    name: 'Sort',
    notice:
      'Each answer depends on all digits, and the weights stay spread over several keys. About 90 % of the answers are right after 100 steps, and 99 % after about 300.',
    settings: { task: 'sort' },
  },
  {
    id: 'copy',
    name: 'Copy (decoder)',
    notice:
      'A decoder: each position predicts the next token and may not attend to later ones, so the weights above the diagonal are zero. After the arrow, the next digit is the one eight positions before, so a second diagonal appears in layer 2. The accuracy is 99 % after about 140 steps.',
    settings: { task: 'copy' },
  },
  {
    id: 'repeated',
    name: 'Find the repeated digit',
    notice:
      'One of eight digits occurs twice; the model answers at the question mark. The accuracy is 99 % after about 130 steps, while the weights stay spread out. The order does not matter here: the task is learned without positions, too.',
    settings: { task: 'repeated' },
  },
];
