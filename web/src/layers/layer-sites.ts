/** Plans the sites of layers with attention. */
import type { ReadSites } from '../base/site-options.js';
import { planSites, type SitePlan } from '../base/site-plan.js';
import { DECODER_SITES, type SiteStack } from '../base/sites.js';
import type { Tensor } from '../base/tensor.js';
import type { RawSites, RawTensor } from '../base/wasm/core.js';

/** The widths of a layer; 0: the default. */
export interface Widths {
  embedDim: number;
  numHeads: number;
  keyDim: number;
  valueDim: number;
  feedForwardDim?: number | undefined;
}

/** The members that `read` adds to a result. */
export interface WithActivations {
  /** The tensors of the sites that `read` names, by name. */
  activations?: Record<string, Tensor> | undefined;
}

/** Describes a stack of layers over the rows of `query`. `heads`: the number of heads of each layer. */
export function layerStack(
  stack: Omit<SiteStack, 'sizesOf'>,
  query: RawTensor,
  key: RawTensor,
  widths: Widths,
  heads: readonly number[] = [],
): SiteStack {
  const { embedDim, numHeads, feedForwardDim = 0 } = widths;
  const [texts, queries] = [query.shape.length > 2 ? query.shape[0]! : null, lengthOf(query)];
  const keyDim = widths.keyDim || embedDim / numHeads;
  const valueDim = widths.valueDim || embedDim / numHeads;
  const isDecoder = stack.sites === DECODER_SITES;
  return {
    ...stack,
    sizesOf: (layer, isCross) => {
      const count = heads[layer] ?? numHeads;
      const keys = isDecoder && !isCross ? queries : lengthOf(key);
      return { texts, queries, keys, heads: count, keyHeads: count, keyDim, valueDim, embedDim, feedForwardDim };
    },
  };
}

/**
 * Converts the options `read` and `edit` of a call for the WebAssembly module. `withActivations` adds the activations
 * to its result.
 */
export function layerSites(
  given: ReadSites,
  owner: string,
  stacks: () => SiteStack[],
): { sites: RawSites | null; withActivations<T extends object>(result: T): T & WithActivations } {
  const plan: SitePlan | null = planSites(given, () => ({ owner, stacks: stacks() }));
  return {
    sites: plan?.raw() ?? null,
    withActivations: (result) => (plan && given.read ? { ...result, activations: plan.activations() } : result),
  };
}

/** The number of rows; the WebAssembly module rejects tensors without that axis. */
const lengthOf = ({ shape }: RawTensor) => shape.at(-2) ?? 0;
