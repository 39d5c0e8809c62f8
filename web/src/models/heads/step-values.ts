/** The values between the steps of a call, and a step with its parameters. */
import type { RawRows, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import type { Pooling, Step } from '../families/steps.js';
import type { Row } from '../input.js';

/** What a call changes about the steps. */
export interface StepOptions {
  /** The poolings. */
  pooling: readonly Pooling[];
  /** The number of tokens at each text's beginning that are left out of the pooling. */
  skipped: number;
  /** Whether the step that normalizes the final vectors is left out. */
  unnormalized: boolean;
}

/** The values of a piece of texts between the steps, by name. */
export class Values {
  readonly #values = new Map<string, RawTensor>();

  constructor(
    readonly encoding: RawRows,
    readonly piece: readonly Row[],
    readonly options: StepOptions,
    /** The hidden states that steps use, besides the last: by the number of their layer, 0 for the embeddings. */
    readonly states: ReadonlyMap<number, Float32Array>,
  ) {}

  get(name: string): RawTensor {
    return this.#values.get(name)!; // `shapesOf` has checked that there is one
  }

  set(name: string, value: RawTensor): void {
    this.#values.set(name, value);
  }

  /** Rows of tokens [T, E], by default the last hidden states. */
  tokens(data = this.encoding.hidden()): RawTensor {
    const count = this.piece.reduce((sum, { ids }) => sum + ids.length, 0);
    return { data, shape: [count, data.length / (count || 1)] };
  }
}

/** A step with its parameters. */
export interface LoadedStep {
  readonly step: Step;
  readonly layers: readonly RawTensorLayer[];
  /** The hidden states that it reads besides the last; see `Values`. Default: none. */
  readonly states?: readonly number[] | undefined;
  run(values: Values): void;
}
