/** The WebAssembly memory of an encoder. It is reserved before the weights are loaded, because engines copy memory that grows, or keep its old and new size at once. */
import type { Core, RawEncoderModelConfig } from '../base/wasm/core.js';
import { pieceTokens } from './run.js';

/** Texts of up to this number of tokens find their memory reserved. */
const TOKENS = 512;

/** Of each core: the weights of its models, the most that a call needs, and the most that has been reserved for both. */
const reserved = new WeakMap<Core, { weights: number; working: number; most: number }>();

/** Makes room for an encoder and its calls, unless models that are gone have left it. Returns what is to be called when the encoder is deleted. */
export function reserveFor(core: Core, config: RawEncoderModelConfig): () => void {
  const state = reserved.get(core) ?? { weights: 0, working: 0, most: 0 };
  reserved.set(core, state);
  const weights = weightBytes(config);
  state.weights += weights;
  state.working = Math.max(state.working, workingBytes(config));
  const needed = state.weights + state.working;
  if (needed > state.most) core.reserveMemory(needed - state.most);
  state.most = Math.max(state.most, needed);
  return () => {
    state.weights -= weights;
  };
}

/** Bytes of the weights as the core keeps them, or a few percent more: what is left over is part of the memory for calls. */
function weightBytes(config: RawEncoderModelConfig): number {
  const { vocabSize, embedDim, embeddingDim, numLayers, numHeads, keyValueHeads, headDim } = config;
  const { feedForwardDim, gated, sharedLayers, maxPositions, rotaryDim = 0, int8, int4Table } = config;
  const heads = 2 * embedDim * (numHeads + keyValueHeads) * headDim;
  const layers = (heads + (gated ? 3 : 2) * embedDim * feedForwardDim) * (sharedLayers ? 1 : numLayers);
  const words = vocabSize * (embeddingDim || embedDim);
  const hasTable = config.positionEmbeddings || config.positions === 'absolute';
  const positions = maxPositions * ((hasTable ? embedDim : 0) + 2 * rotaryDim);
  const bytes = int8 ? 1 : 4;
  // Biases, norms, scales, and panels that are not full.
  return 1.02 * (bytes * layers + words * (int4Table ? 0.5 : bytes) + 4 * positions) + 1.5e6;
}

/** Bytes that a call needs for texts of up to 512 tokens, or for as many short ones as run together. */
export function workingBytes(config: RawEncoderModelConfig): number {
  const { embedDim, numHeads, keyValueHeads, headDim, feedForwardDim, gated, maxPositions, positions } = config;
  const longest = Math.min(TOKENS, maxPositions);
  const tokens = Math.max(longest, pieceTokens(config));
  const projections = (2 * numHeads + 2 * keyValueHeads) * headDim;
  const perToken = 7 * embedDim + projections + (gated ? 3 : 1) * feedForwardDim;
  const bias = positions === 'alibi' ? 2 * numHeads * longest * longest : 0;
  return 4 * (tokens * perToken + bias);
}
