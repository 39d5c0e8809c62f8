/** The sites of layers with attention. */
import type { RawSites, RawTensor } from '../core.js';
import { fullRows, planSites, type SiteLayout, type SitePlan } from '../sites.js';
import type { Tensor } from '../tensor.js';

/** Widths of a layer; 0: the default. */
interface Widths {
  embedDim: number;
  numHeads: number;
  keyDim: number;
  valueDim: number;
  feedForwardDim?: number;
}

/** What `read` adds to a result. */
export interface WithActivations {
  /** The tensor of each site that `read` names. */
  activations?: Record<string, Tensor>;
}

/** A call's options `read` and `edit` for the core, and what adds the activations to its result. `heads`: of each layer of a stack. */
export function layerSites(
  read: Parameters<typeof planSites>[0],
  { owner, numLayers, sites }: Omit<SiteLayout, 'sizesOf'>,
  query: RawTensor,
  key: RawTensor,
  widths: Widths,
  heads: readonly number[] = [widths.numHeads],
): { sites: RawSites | null; withActivations<T extends object>(result: T): T & WithActivations } {
  const { embedDim, numHeads, feedForwardDim = 0 } = widths;
  const [texts, queries, keys] = [query.shape.length > 2 ? query.shape[0]! : null, lengthOf(query), lengthOf(key)];
  const keyDim = widths.keyDim || embedDim / numHeads;
  const valueDim = widths.valueDim || embedDim / numHeads;
  const plan: SitePlan | null = planSites(read, () => ({
    owner,
    numLayers,
    ...(sites && { sites }),
    sizesOf: (layer) => {
      const count = heads[layer] ?? numHeads;
      return { texts, queries, keys, heads: count, keyHeads: count, keyDim, valueDim, embedDim, feedForwardDim };
    },
  }));
  const count = texts ?? 1;
  return {
    sites: plan?.raw(0, fullRows(count, queries), fullRows(count, keys)) ?? null,
    withActivations: (result) => (plan && read.read ? { ...result, activations: plan.activations() } : result),
  };
}

/** The number of rows; the core refuses tensors without that axis. */
const lengthOf = ({ shape }: RawTensor) => shape.at(-2) ?? 0;
