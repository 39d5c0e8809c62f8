/** The members of a `Module` that training uses. */
import { allLayers } from '../layers/composite.js';
import type { Layer } from '../layers/layer.js';
import type { StateDict } from '../layers/state-dict.js';
import type { TensorInput } from '../tensor.js';

export { allLayers };

/** A `Module`, as `fit` trains it. */
export interface LayerTree {
  readonly training: boolean;
  train(): this;
  eval(): this;
  stateDict(): StateDict;
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this;
  /** All layers, with the prefixes of their parameters' names. */
  [allLayers](): [Layer, string][];
}
