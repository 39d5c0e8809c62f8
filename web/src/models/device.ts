/** The device on which a model's layers run: WebAssembly, or a GPU, whose code is imported on demand. */
import type { RunDevice } from './run.js';

/** The device that runs a model's layers, and the reason for it. */
export interface Device {
  /** Where the layers run in the next call. */
  readonly type: 'wasm' | 'webgpu';
  /** Why they run there, as a sentence. */
  readonly reason: string;
  /** The GPU's description by its adapter; null without a GPU. */
  readonly adapter: string | null;
  /**
   * The type in which the GPU stores the weights of matrix products; arithmetic is always fp32. null in WebAssembly,
   * see the model's `config.dtype`.
   */
  readonly dtype: 'fp32' | 'fp16' | null;
  /** The comparison of both devices when the model was loaded: one entry per length of texts, and one for an image. */
  readonly measured: readonly DeviceFigures[];
}

/** Times and differences that were measured when a model was loaded with a device. */
export interface DeviceFigures {
  /** What was computed. */
  input: 'text' | 'image';
  /** The number of tokens, or of an image's rows. */
  length: number;
  /**
   * The maximum of |a - b| / |b| over the rows a of the GPU and b of WebAssembly. The limit is 0.01, where the cosine
   * of the two is at least 0.99995, or 0.1 with dtype 'q8'.
   */
  difference: number;
  /** The time in milliseconds, the faster of two runs. null with 'webgpu', which does not measure times. */
  wasm: number | null;
  /** Milliseconds on the GPU; null if it was not timed. */
  webgpu: number | null;
}

/** A model's device, as the model's calls use it. */
export interface ModelDevice extends RunDevice {
  readonly about: Device;
  delete(): void;
}

export const onCore: Device = { type: 'wasm', reason: 'the default', adapter: null, dtype: null, measured: [] };
