/** What training uses of a `Module`. */
import type { Layer } from '../layers/layer.js';
import type { StateDict } from '../layers/state-dict.js';
import type { TensorInput } from '../tensor.js';

/** The method of a `Module` that lists its layers. A symbol, because users' modules may have a property of any name. */
export const allLayers: unique symbol = Symbol('allLayers');

/** A `Module`, as `fit` trains it. */
export interface LayerTree {
  readonly training: boolean;
  train(): this;
  eval(): this;
  stateDict(): StateDict;
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this;
  /** All layers, and the prefixes of their parameters' names. */
  [allLayers](): [Layer, string][];
}
