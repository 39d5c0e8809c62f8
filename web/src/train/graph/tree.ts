/** The members of a `Module` that training uses. */
import type { TensorInput } from '../../base/tensor.js';
import { allLayers, type Layer, type StateDict } from '../inference.js';

export { allLayers };

/** A `Module` in the form that `fit` trains. */
export interface LayerTree {
  readonly training: boolean;
  train(): this;
  eval(): this;
  stateDict(): StateDict;
  loadStateDict(state: Readonly<Record<string, TensorInput>>): this;
  /** All layers, with the prefixes of their parameters' names. */
  [allLayers](): [Layer, string][];
}
