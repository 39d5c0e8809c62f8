/** Where a model's layers run: in the core, or on a GPU, whose part is loaded when a caller asks for one. */
import type { DeviceLayers } from './run.js';

/** The device that runs a model's layers, and the reason for it. */
export interface Device {
  readonly type: 'wasm' | 'webgpu';
  readonly reason: string;
  /** The GPU, as its adapter describes itself; null without one. */
  readonly adapter: string | null;
  /** The type in which the GPU keeps the weights of matrix products, whose arithmetic is fp32 always. Null in WebAssembly, where the model's `config.dtype` says it. */
  readonly dtype: 'fp32' | 'fp16' | null;
  /** What was compared when the model was loaded: for each length of texts (and for an image), both devices. */
  readonly measured: readonly DeviceFigures[];
}

export interface DeviceFigures {
  input: 'text' | 'image';
  /** Tokens, or rows of an image. */
  length: number;
  /** The greatest |a - b| / |b| of any row a and of its row b in WebAssembly. Up to 0.01 passes, at which the cosine of the two is at least 0.99995; with dtype 'q8' up to 0.1. */
  difference: number;
  /** Milliseconds of the faster of two runs; null with 'webgpu', which does not time. */
  wasm: number | null;
  webgpu: number | null;
}

/** A model's device, for the calls of the model. */
export interface ModelDevice {
  readonly about: Device;
  /** The most rows of texts that run at a time; undefined: as in the core. */
  readonly maxRows: number | undefined;
  /**
   * Runs `run` with the layers on the GPU, or with null for those of the core: for few rows, if the GPU is slower for them; and with 'auto', if the GPU fails or lacks what the
   * call needs.
   */
  attempt(input: 'text' | 'image', rows: number, run: (layers: DeviceLayers | null) => Promise<void>): Promise<void>;
  delete(): void;
}

export const onCore: Device = { type: 'wasm', reason: 'the default', adapter: null, dtype: null, measured: [] };
