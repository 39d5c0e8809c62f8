/**
 * The options `read` and `edit`: what they name, their checks, and the tensors that were read. The core does the reading and editing (heed/sites.h).
 * Notation: N texts, L rows of the longest, S keys, H heads, Hk heads of keys and values, Dk and Dv width of one head's keys and values, E width, F feed-forward width.
 */

import { describe, floatsOf, formatShape, guarded, HeedError, invalid } from './error.js';
import { integer, listOf, nearest, optional, type Reader, requireKnown, text } from './options.js';
import { type PaddedRow, padHeads, padWeights } from './padding.js';
import { readTensor, Tensor, type TensorInput } from './tensor.js';
import type { RawEncoderModelConfig, RawSiteEdit, RawSites, RawTensor } from './wasm/core.js';

/** The sites of a layer, in the core's order. */
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
/** Those of multi-head attention. */
export const ATTENTION_SITES = SITES.slice(1, 8);
/** Those of a decoder layer, whose attentions have the names that they have in state dicts. */
export const DECODER_SITES = [
  'input',
  ...['self_attn', 'multihead_attn'].flatMap((part) => ATTENTION_SITES.map((site) => `${part}.${site}`)),
  ...SITES.slice(8),
];

/**
 * A change of a site, with exactly one of `scale`, `add`, `set` and `map`. Tensors broadcast from the right to the selection. `texts`, `heads`, `positions` (of queries; at `keys` and
 * `values`, of keys) and, at `scores` and `weights`, `keys` select entries along the site's axes; left out, all.
 */
export interface SiteEdit {
  /** As in `read`: `layers.2.heads`; `*` stands for every layer. */
  site: string;
  texts?: readonly number[];
  heads?: readonly number[];
  positions?: readonly number[];
  keys?: readonly number[];
  /** Factors. */
  scale?: TensorInput | number;
  /** Summands. */
  add?: TensorInput | number;
  /** Values; 'mean': the mean over all tokens of the call (at `scores` and `weights`: over the rows of queries). */
  set?: TensorInput | number | 'mean';
  /** Gets the selection, with zeros as padding, and changes it in place, returning nothing or its data, or returns another tensor of its shape. Called once per site and call. May call heed, but not change what the call runs. Not in workers. */
  // biome-ignore lint/suspicious/noConfusingVoidType: functions that return nothing are meant, too
  map?: (selection: Tensor) => Tensor | Float32Array | void;
}

/** Options of calls whose sites can be edited. */
export interface EditOptions {
  /** Changes of activations, in this order, see docs/lens.md. */
  edit?: readonly SiteEdit[];
}

/** Options of calls whose sites can be read, too. */
export interface SiteOptions extends EditOptions {
  /** Names of sites, such as `layers.0.weights` or `layers.*.heads`, see docs/lens.md: `activations` has a tensor for each. */
  read?: readonly string[];
}

/** In the core's order, without the mean's. */
const VERBS = ['scale', 'add', 'set', 'map'] as const;
export const SCALE = 0;
export const SET = 2;
export const MEAN = 3;
export const MAP = 4;
const SELECTORS = ['texts', 'heads', 'positions', 'keys'] as const;
type Selector = (typeof SELECTORS)[number];

/** An edit whose values have been checked, but not whether they fit the site. */
export interface ReadEdit {
  argument: string;
  site: string;
  selected: Partial<Record<Selector, number[]>>;
  verb: number;
  operand: RawTensor | null;
  map: NonNullable<SiteEdit['map']> | null;
}

const indices = listOf((value, name) => integer(value, name, 0), 'an array of indices');

/** Factors are finite, and summands finite or -Infinity, which masks scores: others would only make NaN. Values to set may be anything, as NaN shows what depends on them. */
function readOperand(value: unknown, verb: 'scale' | 'add' | 'set', name: string): RawTensor {
  const read = typeof value === 'number' ? { data: Float32Array.of(value), shape: [] } : readTensor(name, value);
  if (verb === 'set') return read;
  const wrong = read.data.findIndex((entry) => !Number.isFinite(entry) && (verb === 'scale' || entry !== -Infinity));
  if (wrong < 0) return read;
  const expected = verb === 'scale' ? 'finite factors' : 'finite numbers or -Infinity';
  throw invalid(name, expected, `${read.data[wrong]}${read.shape.length > 0 ? ` at entry ${wrong}` : ''}`);
}

function readEdit(given: unknown, argument: string): ReadEdit {
  return guarded(argument, () => {
    if (typeof given !== 'object' || given === null) throw invalid(argument, '{ site, set }', describe(given));
    requireKnown(argument, Object.keys(given), ['site', ...SELECTORS, ...VERBS]);
    const edit = { ...given } as SiteEdit;
    const verbs = VERBS.filter((verb) => edit[verb] !== undefined);
    if (verbs.length !== 1)
      throw invalid(argument, `one of ${VERBS.join(', ')}`, verbs.length === 0 ? 'none' : verbs.join(' and '));
    const selected: ReadEdit['selected'] = {};
    for (const axis of SELECTORS) {
      const list = edit[axis];
      if (list === undefined) continue;
      const read = indices(list, `${argument}.${axis}`);
      if (new Set(read).size !== read.length)
        throw invalid(`${argument}.${axis}`, 'each index once', describe(read.join(', ')));
      selected[axis] = read;
    }
    const verb = verbs[0]!;
    const value = edit[verb];
    const isMean = verb === 'set' && value === 'mean';
    if (verb === 'set' && typeof value === 'string' && !isMean)
      throw invalid(`${argument}.set`, `a tensor, a number or 'mean'`, describe(value));
    if (verb === 'map' && typeof value !== 'function') throw invalid(`${argument}.map`, 'a function', describe(value));
    return {
      argument,
      site: text(edit.site, `${argument}.site`),
      selected,
      verb: verb === 'map' ? MAP : isMean ? MEAN : VERBS.indexOf(verb),
      operand: verb === 'map' || isMean ? null : readOperand(value, verb, `${argument}.${verb}`),
      map: edit.map ?? null,
    };
  });
}

/**
 * The edit as a caller gives it, in plain data that can be sent to a worker.
 * @throws HeedError UNSUPPORTED for `map`, as functions cannot be sent
 */
export function plainEdit({ argument, site, selected, verb, operand }: ReadEdit): SiteEdit {
  if (verb === MAP)
    throw invalid(`${argument}.map`, '`scale`, `add` or `set` in a worker', 'a function', 'UNSUPPORTED');
  return { site, ...selected, ...(verb === MEAN ? { set: 'mean' as const } : { [VERBS[verb]!]: operand }) };
}

/** Whether all texts or images must be computed together for it. */
export const needsAll = ({ verb }: ReadEdit): boolean => verb >= MEAN;

/** The options `read` and `edit`. */
export const siteSchema = {
  read: optional(listOf(text, 'an array of names of sites'), null) as Reader<string[] | null>,
  edit: optional(listOf(readEdit, 'an array of edits'), null) as Reader<ReadEdit[] | null>,
};
/** The option `edit`. */
export const editSchema = { edit: siteSchema.edit };
/** `also`: sites to read that `activations` lacks. `showsLayers`: the result shows more of each layer. */
export type ReadSites = { read?: string[] | null; edit: ReadEdit[] | null; also?: string[]; showsLayers?: boolean };

/** The sizes of a layer's sites. */
export interface SiteSizes {
  /** null: tensors without an axis of texts. */
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

/** The sizes of the sites of an encoder model's layers, for `texts` texts, or images, of at most `length` rows. */
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
  /** null: one layer, whose sites have no `layers.i.` before their names. */
  numLayers: number | null;
  /** What precedes the names of the stack's sites; default: nothing. */
  prefix?: string;
  /** The core's number of the first layer; default 0. */
  first?: number;
  /** Default: those of encoder layers. With DECODER_SITES, the core has two numbers per layer, of which the second is that of the attention to the memory. */
  sites?: readonly string[];
  /** `isCross`: of the attention to the memory. */
  sizesOf(layer: number, isCross: boolean): SiteSizes;
}

/** What a call has sites of. */
export interface SiteLayout {
  /** The call, for errors. */
  owner: string;
  stacks: readonly SiteStack[];
}

interface Target {
  name: string;
  layer: number;
  site: SiteName;
  sizes: SiteSizes;
}

/** Sites per layer in the core's numbers of sites. */
const PER_LAYER = 16;
export const codeOf = ({ layer, site }: Pick<Target, 'layer' | 'site'>) => layer * PER_LAYER + SITES.indexOf(site);
export const siteOf = (code: number): SiteName | undefined => SITES[code % PER_LAYER];
const layerOf = (code: number) => Math.floor(code / PER_LAYER);
const isInput = (code: number) => code % PER_LAYER === SITES.indexOf('input');
export const isMatrix = (site: SiteName | undefined) => site === 'scores' || site === 'weights';

/** The sites that a name stands for. */
function targetsOf(name: string, argument: string, { stacks }: SiteLayout): Target[] {
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
  throw invalid(argument, `a site: ${nearest(name, all)} (all: ${all.join(', ')})`, describe(name));
}

type Axis = [axis: Selector | null, extent: number];

function axesOf(site: SiteName, z: SiteSizes): Axis[] {
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

const shapeOf = (axes: readonly Axis[]) => axes.map(([, extent]) => extent);

/** Where the core has an axis among (n, h, l, d). */
const slotOf = (axis: Selector | null) => (axis === null ? 3 : SELECTORS.indexOf(axis));

/** For each entry of an axis its index in the selection, or -1. */
function indexMap(selected: readonly number[], extent: number, argument: string): Int32Array {
  const map = new Int32Array(extent).fill(-1);
  for (const [i, index] of selected.entries()) {
    if (index >= extent) throw invalid(argument, `indices from 0 to ${extent - 1}`, `${index}`);
    map[index] = i;
  }
  return map;
}

interface Mapping {
  map: NonNullable<SiteEdit['map']>;
  argument: string;
  shape: number[];
}

/** What a call reads and edits: its options for the core, piece by piece, and the tensors that were read. */
export class SitePlan {
  /** Whether all texts must be computed together. */
  readonly needsAll: boolean;
  /** The first layer that has to run: an edit sets all of its input, and nothing that the layers before it compute is seen. */
  readonly firstLayer: number;
  /** The number of texts. */
  readonly #texts: number;
  readonly #numEdits: number;
  readonly #edits: { raw: Omit<RawSiteEdit, 'selected'>; selected: (Int32Array | null)[]; mapping: Mapping | null }[] =
    [];
  readonly #reads = new Map<
    string,
    {
      code: number;
      site: SiteName;
      sizes: SiteSizes;
      axes: Axis[];
      data: Float32Array;
      isNamed: boolean;
      tensor?: Tensor;
    }
  >();

  constructor({ read, edit, also = [], showsLayers = false }: ReadSites, layout: SiteLayout) {
    const { owner, stacks } = layout;
    this.#texts = stacks[0]!.sizesOf(0, false).texts ?? 1;
    this.#numEdits = edit?.length ?? 0;
    for (const [i, one] of (edit ?? []).entries())
      for (const target of targetsOf(one.site, `${one.argument}.site`, layout)) this.#addEdit(i, one, target);
    const named = read ?? [];
    for (const [i, name] of [...named, ...also].entries())
      for (const target of targetsOf(name, `${owner}.read[${i}]`, layout)) {
        if (this.#reads.has(target.name)) continue;
        const { site, sizes } = target;
        const axes = axesOf(site, sizes);
        const data = floatsOf(owner, shapeOf(axes));
        this.#reads.set(target.name, { code: codeOf(target), site, sizes, axes, data, isNamed: i < named.length });
      }
    this.needsAll = edit?.some(needsAll) ?? false;
    const seen = [
      ...[...this.#reads.values()].map(({ code }) => layerOf(code)),
      ...this.#edits.filter(({ mapping }) => mapping).map(({ raw }) => layerOf(raw.code)),
    ];
    const set = this.#edits
      .filter(({ raw, selected }) => isInput(raw.code) && raw.verb === SET && selected.every((axis) => axis === null))
      .map(({ raw }) => layerOf(raw.code));
    this.firstLayer = showsLayers ? 0 : Math.max(0, ...set.filter((layer) => seen.every((other) => other >= layer)));
  }

  #addEdit(number: number, { argument, selected, verb, operand, map }: ReadEdit, target: Target): void {
    const axes = axesOf(target.site, target.sizes);
    const maps: (Int32Array | null)[] = [null, null, null, null];
    const lacking = SELECTORS.find((axis) => selected[axis] && !axes.some(([own]) => own === axis));
    if (lacking) throw invalid(`${argument}.${lacking}`, `none at '${target.name}', which has no such axis`, 'indices');
    const shape = axes.map(([axis, extent]) => {
      const list = axis === null ? undefined : selected[axis];
      if (!list) return extent;
      maps[slotOf(axis)] = indexMap(list, extent, `${argument}.${axis}`);
      return list.length;
    });
    const extents = [1, 1, 1, 1];
    const strides = [0, 0, 0, 0];
    axes.forEach(([axis], i) => (extents[slotOf(axis)] = shape[i]!));
    const given = operand?.shape ?? [];
    const first = shape.length - given.length;
    if (given.some((extent, i) => first < 0 || (extent !== 1 && extent !== shape[first + i])))
      throw invalid(
        `${argument}.${VERBS[verb]}`,
        `a tensor that broadcasts to the selection, ${formatShape(shape)}`,
        formatShape(given),
        'SHAPE_MISMATCH',
      );
    for (let i = given.length - 1, stride = 1; i >= 0; stride *= given[i--]!)
      if (given[i] !== 1) strides[slotOf(axes[first + i]![0])] = stride;
    this.#edits.push({
      raw: { code: codeOf(target), verb, extents, strides, operand, number },
      selected: maps,
      mapping: map && { map, argument: `${argument}.map`, shape },
    });
  }

  /** The core's options for `rows`, of which the first is text `first` of the call; default: all, without padding. */
  raw(first = 0, given?: readonly PaddedRow[]): RawSites {
    const isPlain = !given || given.every(({ columns }) => columns.every((column, i) => column === i));
    const count = given?.length ?? this.#texts;
    const rowsOf = (length: number) => given ?? fullRows(count, length);
    const layoutOf = (read: { site: SiteName; sizes: SiteSizes; axes: Axis[] }) => {
      const { site, sizes, axes } = read;
      const isOfKeys = site === 'keys' || site === 'values';
      return {
        heads: axes.find(([axis]) => axis === 'heads')?.[1] ?? 1,
        rows: rowsOf(isOfKeys ? sizes.keys : sizes.queries),
        keys: isMatrix(site) ? rowsOf(sizes.keys) : null,
      };
    };
    // Edits of other texts only would be copied for nothing.
    const texts = Array.from({ length: count }, (_, n) => first + n);
    const edits = this.#edits.filter(({ selected: [own] }) => !own || texts.some((n) => own[n]! >= 0));
    return {
      reads: Int32Array.from(new Set([...this.#reads.values()].map(({ code }) => code))),
      columns: isPlain ? null : Int32Array.from(given!.flatMap(({ columns }) => columns)),
      numEdits: this.#numEdits,
      edits: edits.map(({ raw, selected: [own = null, ...others] }) => ({
        ...raw,
        selected: [Int32Array.from(texts, (n) => (own ? own[n]! : n)), ...others],
      })),
      read: (code, values) => {
        for (const read of this.#reads.values()) {
          if (read.code !== code) continue;
          const { heads, rows, keys } = layoutOf(read);
          const [length, dim] = read.axes.slice(-2).map(([, extent]) => extent) as [number, number];
          const out = read.data.subarray(first * heads * length * dim);
          if (keys) padWeights(values, rows, length, heads, out, keys, dim);
          else padHeads(values, rows, length, heads, dim, out);
        }
      },
      map: (edit, values) => mapped(edits[edit]!.mapping!, values),
      layoutOf: (code) => {
        const all = [...this.#reads].filter(([, read]) => read.code === code);
        const read = all[0]![1];
        return { names: all.map(([name]) => name), shape: shapeOf(read.axes), ...layoutOf(read) };
      },
      keep: (code, tensor) => {
        for (const read of this.#reads.values()) if (read.code === code) read.tensor = tensor as Tensor;
      },
    };
  }

  /** What was read of a site. */
  tensor(name: string): Tensor {
    const { axes, data, tensor } = this.#reads.get(name)!;
    return tensor ?? new Tensor(data, shapeOf(axes));
  }

  /** What was read, by the sites' names. */
  activations(): Record<string, Tensor> {
    const named = [...this.#reads].filter(([, { isNamed }]) => isNamed);
    return Object.fromEntries(named.map(([name]) => [name, this.tensor(name)]));
  }
}

/** The plan of a call; null if it reads and edits nothing. */
export function planSites(read: ReadSites, layout: () => SiteLayout): SitePlan | null {
  return read.read || read.edit || read.also?.length ? new SitePlan(read, layout()) : null;
}

function mapped({ map, argument, shape }: Mapping, values: Float32Array): Float32Array {
  const selection = new Tensor(values, shape);
  let result: unknown;
  try {
    result = map(selection);
  } catch (cause) {
    throw new HeedError('INVALID_ARGUMENT', `${argument}: threw ${describe(cause)}`, { cause });
  }
  if (result === undefined) return values;
  const expected = `nothing, or a tensor of shape ${formatShape(shape)}`;
  if (typeof (result as { then?: unknown } | null)?.then === 'function')
    throw invalid(argument, `${expected}, at once`, 'a promise');
  if (result === values) return values; // as `fill` returns it
  const { data, shape: got } = readTensor(argument, result);
  if (formatShape(got) === formatShape(shape)) return data;
  throw invalid(argument, expected, formatShape(got), 'SHAPE_MISMATCH');
}

/** Rows without padding, `count` texts of `length` each. */
export function fullRows(count: number, length: number): PaddedRow[] {
  const columns = Array.from({ length }, (_, i) => i);
  return Array.from({ length: count }, () => ({ columns }));
}
