/**
 * The sites of an encoder layer, and an example of every layer of heed and heed/train: options, and the arguments of a
 * call.
 */
import type { layers } from '../../../web/src/layers/classes.js';
import { draw } from './numbers.js';

export const siteNames = [
  'input',
  'queries',
  'keys',
  'values',
  'scores',
  'weights',
  'heads',
  'attention',
  'hidden',
  'feedForward',
  'output',
];

const sizes = { embedDim: 8, numHeads: 2, feedForwardDim: 4, dropout: 0.5 };
const x = draw(1, 2, 3, 8);
const memory = draw(2, 2, 4, 8);

/** Examples of all layers, with dropout if a layer has it. A layer without an example is a compile error. */
export const layerExamples: Record<keyof typeof layers, { options: object; given: unknown[] }> = {
  Linear: { options: { inFeatures: 8, outFeatures: 2 }, given: [x] },
  LayerNorm: { options: { normalizedShape: 8 }, given: [x] },
  BatchNorm: { options: { numFeatures: 8 }, given: [x] },
  Dropout: { options: { p: 0.5 }, given: [x] },
  PositionalEncoding: { options: { embedDim: 8, maxLength: 6, learned: true }, given: [x] },
  FeedForward: { options: { embedDim: 8, feedForwardDim: 4, dropout: 0.5 }, given: [x] },
  MultiHeadAttention: { options: { embedDim: 8, numHeads: 2, dropout: 0.5 }, given: [x] },
  EncoderLayer: { options: sizes, given: [x] },
  Encoder: { options: { ...sizes, numLayers: 2, finalNorm: true }, given: [x] },
  DecoderLayer: { options: sizes, given: [x, memory] },
  Decoder: { options: { ...sizes, numLayers: 2 }, given: [x, memory] },
  Transformer: { options: { ...sizes, numEncoderLayers: 1, numDecoderLayers: 1 }, given: [memory, x] },
  Conv1D: { options: { inChannels: 8, outChannels: 4, kernelSize: 2, groups: 2 }, given: [x] },
  LSTM: { options: { inputSize: 8, hiddenSize: 3, numLayers: 2, bidirectional: true }, given: [x] },
  GRU: { options: { inputSize: 8, hiddenSize: 3 }, given: [x] },
  Embedding: { options: { numEmbeddings: 5, embedDim: 8 }, given: [[[1, 2, 3]]] },
};
