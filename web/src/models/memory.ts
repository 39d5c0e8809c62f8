/**
 * The WebAssembly memory of an encoder. It is reserved before the weights are loaded, because engines copy memory when
 * it grows, or hold both the old and the new size for a while.
 */
import type { Core, RawEncoderModelConfig } from '../base/wasm/core.js';
import { pieceTokens } from './run.js';

/** The maximum number of tokens of texts for which memory is reserved. */
const TOKENS = 512;

/** The maximum number of positions for whose angles memory is reserved. */
const ANGLES = 2 ** 15;

/**
 * Per module instance, in bytes: the weights of its models, the maximum that a call needs, and the maximum of their sum
 * so far, which has been reserved.
 */
const reserved = new WeakMap<Core, { weights: number; working: number; most: number }>();

/**
 * Reserves memory for an encoder and its calls, unless deleted models have left enough. Returns a function to call when
 * the encoder is deleted.
 */
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

/** The size of the weights in memory in bytes, overestimated by a few percent. The surplus is available to calls. */
function weightBytes(config: RawEncoderModelConfig): number {
  const { vocabSize, embedDim, embeddingDim, numLayers, numHeads, keyValueHeads, headDim } = config;
  const {
    feedForwardDim,
    gated,
    sharedLayers,
    maxPositions,
    rotaryDim = 0,
    int8,
    tableCode,
    layerInputDim = 0,
  } = config;
  const heads = 2 * embedDim * (numHeads + keyValueHeads) * headDim;
  const layer = heads + (gated ? 3 : 2) * embedDim * feedForwardDim + 3 * embedDim * layerInputDim;
  const layers = layer * (sharedLayers ? 1 : numLayers);
  const words = vocabSize * (embeddingDim || embedDim);
  const hasTable = config.positionEmbeddings || config.positions === 'absolute';
  // The tables of angles grow with the texts.
  const positions = maxPositions * (hasTable ? embedDim : 0) + Math.min(maxPositions, ANGLES) * 2 * rotaryDim;
  const bytes = int8 ? 1 : 4;
  // Biases, norms, scales, and padding of partly filled panels.
  return 1.02 * (bytes * layers + words * (tableCode ? 0.5 : bytes) + 4 * positions) + 1.5e6;
}

/** The number of bytes that a call needs for texts of up to 512 tokens, or for a piece of shorter ones. */
export function workingBytes(config: RawEncoderModelConfig): number {
  const { embedDim, numHeads, keyValueHeads, headDim, feedForwardDim, gated, maxPositions, positions } = config;
  const longest = Math.min(TOKENS, maxPositions);
  const tokens = Math.max(longest, pieceTokens(config));
  const projections = (2 * numHeads + 2 * keyValueHeads) * headDim;
  const perToken = 7 * embedDim + projections + (gated ? 3 : 1) * feedForwardDim;
  const bias = positions === 'alibi' ? 2 * numHeads * longest * longest : 0;
  return 4 * (tokens * perToken + bias);
}
