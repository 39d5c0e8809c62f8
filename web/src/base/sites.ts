/** The sites of layers, as in heed/sites.h: their names and codes, and the axes of their activations. */
import { describe, invalid } from './error.js';
import { knownNames } from './options.js';
import type { RawEncoderModelConfig } from './wasm/core.js';

/** The sites of a layer, in the order of heed/sites.h. */
const SITES = [
  'input',
  'queries',
  'keys',
  'values',
  'scores',
  'weights',
  'heads',
  'attention',
  'hidden',
  'feedForward',
  'output',
] as const;
export type SiteName = (typeof SITES)[number];
/** The sites of multi-head attention. */
export const ATTENTION_SITES = SITES.slice(1, 8);
/** The sites of a decoder layer. Its attentions are named as in state dicts. */
export const DECODER_SITES = [
  'input',
  ...['self_attn', 'multihead_attn'].flatMap((part) => ATTENTION_SITES.map((site) => `${part}.${site}`)),
  ...SITES.slice(8),
];

/** The axes that an edit can select entries along. */
export const SELECTORS = ['texts', 'heads', 'positions', 'keys'] as const;
export type Selector = (typeof SELECTORS)[number];

/** The sizes of the sites of a layer. */
export interface SiteSizes {
  /** null: the tensors have no axis of texts. */
  texts: number | null;
  queries: number;
  keys: number;
  heads: number;
  keyHeads: number;
  keyDim: number;
  valueDim: number;
  embedDim: number;
  feedForwardDim: number;
}

/** The sizes of the sites of an encoder model's layers, for `texts` texts or images of at most `length` rows. */
export function encoderSizes(config: RawEncoderModelConfig, texts: number, length: number): SiteSizes {
  const { numHeads, keyValueHeads, headDim, embedDim, feedForwardDim } = config;
  return {
    texts,
    queries: length,
    keys: length,
    heads: numHeads,
    keyHeads: keyValueHeads,
    keyDim: headDim,
    valueDim: headDim,
    embedDim,
    feedForwardDim,
  };
}

/** A layer or a stack of them. */
export interface SiteStack {
  /** null: a single layer, whose sites have no prefix `layers.i.`. */
  numLayers: number | null;
  /** The prefix of the names of the stack's sites. Default: none. */
  prefix?: string | undefined;
  /** The index of the first layer in heed/sites.h's numbering. Default 0. */
  first?: number | undefined;
  /**
   * The sites of a layer. Default: those of encoder layers. With DECODER_SITES, each layer takes two indices in that
   * numbering, the second for cross-attention.
   */
  sites?: readonly string[] | undefined;
  /** `isCross`: the sizes of cross-attention. */
  sizesOf(layer: number, isCross: boolean): SiteSizes;
}

/** The layers of a call whose sites can be read and edited. */
export interface SiteLayout {
  /** The name of the call, for errors. */
  owner: string;
  stacks: readonly SiteStack[];
}

export interface Target {
  name: string;
  layer: number;
  site: SiteName;
  sizes: SiteSizes;
}

/** The number of codes per layer. */
const PER_LAYER = 16;
export const codeOf = ({ layer, site }: Pick<Target, 'layer' | 'site'>) => layer * PER_LAYER + SITES.indexOf(site);
export const siteOf = (code: number): SiteName | undefined => SITES[code % PER_LAYER];
export const layerOf = (code: number) => Math.floor(code / PER_LAYER);
export const isInput = (code: number) => code % PER_LAYER === SITES.indexOf('input');
export const isMatrix = (site: SiteName | undefined) => site === 'scores' || site === 'weights';

/** The sites that a name refers to. */
export function targetsOf(name: string, argument: string, { stacks }: SiteLayout): Target[] {
  const all: string[] = [];
  for (const stack of stacks) {
    const { numLayers, prefix = '', first = 0, sites = SITES, sizesOf } = stack;
    const own = name.startsWith(prefix) ? name.slice(prefix.length) : '';
    const step = sites === DECODER_SITES ? 2 : 1;
    const target = (layer: number, site: string, rest = `layers.${layer}.${site}`): Target => {
      const isCross = site.startsWith('multihead_attn.');
      const place = { layer: first + step * layer + Number(isCross), site: site.split('.').at(-1) as SiteName };
      return { name: prefix + rest, ...place, sizes: sizesOf(layer, isCross) };
    };
    if (numLayers === null) {
      if (sites.includes(own)) return [target(0, own, own)];
      all.push(...sites.map((site) => prefix + site));
      continue;
    }
    if (own === 'embeddings') return [target(0, 'input', own)];
    if (own === 'output') return [target(numLayers, own, own)];
    const [, layer, site] = /^layers\.(\*|\d+)\.([\w.]+)$/.exec(own) ?? [];
    if (site !== undefined && sites.includes(site)) {
      if (layer === '*') return Array.from({ length: numLayers }, (_, i) => target(i, site));
      if (Number(layer) < numLayers) return [target(Number(layer), site)];
      throw invalid(argument, `a layer from 0 to ${numLayers - 1}`, describe(name));
    }
    const layers = /^layers\.[^.]*\./.exec(own)?.[0] ?? 'layers.0.';
    all.push(`${prefix}embeddings`, ...sites.map((each) => prefix + layers + each), `${prefix}output`);
  }
  throw invalid(argument, `a site: ${knownNames(name, all)}`, describe(name));
}

export type Axis = [axis: Selector | null, extent: number];

export function axesOf(site: SiteName, z: SiteSizes): Axis[] {
  const texts: Axis[] = z.texts === null ? [] : [['texts', z.texts]];
  switch (site) {
    case 'queries':
      return [...texts, ['heads', z.heads], ['positions', z.queries], [null, z.keyDim]];
    case 'keys':
      return [...texts, ['heads', z.keyHeads], ['positions', z.keys], [null, z.keyDim]];
    case 'values':
      return [...texts, ['heads', z.keyHeads], ['positions', z.keys], [null, z.valueDim]];
    case 'scores':
    case 'weights':
      return [...texts, ['heads', z.heads], ['positions', z.queries], ['keys', z.keys]];
    case 'heads':
      return [...texts, ['heads', z.heads], ['positions', z.queries], [null, z.valueDim]];
    case 'hidden':
      return [...texts, ['positions', z.queries], [null, z.feedForwardDim]];
    default:
      return [...texts, ['positions', z.queries], [null, z.embedDim]];
  }
}

export const shapeOf = (axes: readonly Axis[]) => axes.map(([, extent]) => extent);
