/**
 * The options `read` and `edit`: names of sites, validation, and the tensors that were read. The WebAssembly module
 * does the reading and editing (heed/sites.h). Notation: N texts, L rows of the longest text, S keys, H heads, Hk key
 * and value heads, Dk and Dv width of one head's keys and values, E width, F feed-forward width.
 */

import { describe, floatsOf, formatShape, guarded, HeedError, invalid } from './error.js';
import { integer, knownNames, listOf, optional, type Reader, requireKnown, text } from './options.js';
import { type PaddedRow, padHeads, padWeights } from './padding.js';
import { readTensor, Tensor, type TensorInput } from './tensor.js';
import type { RawEncoderModelConfig, RawSiteEdit, RawSites, RawTensor } from './wasm/core.js';

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

/**
 * An edit of a site, with exactly one of `scale`, `add`, `set` and `map`. Tensors broadcast from the right to the
 * selection. `texts`, `heads`, `positions` (of queries; at `keys` and `values`, of keys) and, at `scores` and
 * `weights`, `keys` select entries along the site's axes. Default: all entries.
 */
export interface SiteEdit {
  /** The name of the site, such as `layers.2.heads`; `*` stands for every layer. */
  site: string;
  texts?: readonly number[];
  heads?: readonly number[];
  positions?: readonly number[];
  keys?: readonly number[];
  /** Factors by which the values are multiplied. */
  scale?: TensorInput | number;
  /** Numbers that are added to the values. */
  add?: TensorInput | number;
  /**
   * New values, or 'mean': the mean over all tokens of the call (at `scores` and `weights`, over the rows of queries).
   */
  set?: TensorInput | number | 'mean';
  /**
   * A function that receives the selection, padded with zeros. It changes the selection in place and returns nothing or
   * its data, or it returns another tensor of the same shape. Called once per site and call. It may call heed, but must
   * not change modules that the call uses. Not supported in workers.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: functions that return nothing are meant, too
  map?: (selection: Tensor) => Tensor | Float32Array | void;
}

/** Options of calls that can edit activations. */
export interface EditOptions {
  /** Edits of activations, applied in this order; see docs/lens.md. */
  edit?: readonly SiteEdit[];
}

/** Options of calls that can read and edit activations. */
export interface SiteOptions extends EditOptions {
  /**
   * Names of sites, such as `layers.0.weights` or `layers.*.heads`; see docs/lens.md. The result's `activations` has
   * one tensor per site.
   */
  read?: readonly string[];
}

/** The verbs in the order of heed/sites.h, where the mean comes between `set` and `map`. */
const VERBS = ['scale', 'add', 'set', 'map'] as const;
export const SCALE = 0;
export const SET = 2;
export const MEAN = 3;
export const MAP = 4;
const SELECTORS = ['texts', 'heads', 'positions', 'keys'] as const;
type Selector = (typeof SELECTORS)[number];

/** An edit whose values have been checked, but not yet whether they match the site. */
export interface ReadEdit {
  argument: string;
  site: string;
  selected: Partial<Record<Selector, number[]>>;
  verb: number;
  operand: RawTensor | null;
  map: NonNullable<SiteEdit['map']> | null;
}

const indices = listOf((value, name) => integer(value, name, 0), 'an array of indices');

/**
 * Reads the operand of an edit. Factors must be finite, and summands finite or -Infinity, which masks scores; other
 * values would only produce NaN. `set` accepts any value: NaN shows what depends on a site.
 */
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
 * Converts an edit to plain data that can be posted to a worker.
 * @throws HeedError UNSUPPORTED for `map`, as functions cannot be sent
 */
export function plainEdit({ argument, site, selected, verb, operand }: ReadEdit): SiteEdit {
  if (verb === MAP)
    throw invalid(`${argument}.map`, '`scale`, `add` or `set` in a worker', 'a function', 'UNSUPPORTED');
  return { site, ...selected, ...(verb === MEAN ? { set: 'mean' as const } : { [VERBS[verb]!]: operand }) };
}

/** Whether the edit requires all texts or images to be computed in one batch. */
export const needsAll = ({ verb }: ReadEdit): boolean => verb >= MEAN;

/** The schema of the options `read` and `edit`. */
export const siteSchema = {
  read: optional(listOf(text, 'an array of names of sites'), null) as Reader<string[] | null>,
  edit: optional(listOf(readEdit, 'an array of edits'), null) as Reader<ReadEdit[] | null>,
};
/** The schema of the option `edit`. */
export const editSchema = { edit: siteSchema.edit };
/**
 * `also`: sites to read that are left out of `activations`. `showsLayers`: the result contains further outputs of each
 * layer.
 */
export type ReadSites = { read?: string[] | null; edit: ReadEdit[] | null; also?: string[]; showsLayers?: boolean };

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
  prefix?: string;
  /** The index of the first layer in heed/sites.h's numbering. Default 0. */
  first?: number;
  /**
   * The sites of a layer. Default: those of encoder layers. With DECODER_SITES, each layer takes two indices in that
   * numbering, the second for cross-attention.
   */
  sites?: readonly string[];
  /** `isCross`: the sizes of cross-attention. */
  sizesOf(layer: number, isCross: boolean): SiteSizes;
}

/** The layers of a call whose sites can be read and edited. */
export interface SiteLayout {
  /** The name of the call, for errors. */
  owner: string;
  stacks: readonly SiteStack[];
}

interface Target {
  name: string;
  layer: number;
  site: SiteName;
  sizes: SiteSizes;
}

/** The number of codes per layer. */
const PER_LAYER = 16;
export const codeOf = ({ layer, site }: Pick<Target, 'layer' | 'site'>) => layer * PER_LAYER + SITES.indexOf(site);
export const siteOf = (code: number): SiteName | undefined => SITES[code % PER_LAYER];
const layerOf = (code: number) => Math.floor(code / PER_LAYER);
const isInput = (code: number) => code % PER_LAYER === SITES.indexOf('input');
export const isMatrix = (site: SiteName | undefined) => site === 'scores' || site === 'weights';

/** The sites that a name refers to. */
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
  throw invalid(argument, `a site: ${knownNames(name, all)}`, describe(name));
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

/** The index of an axis among (n, h, l, d). */
const slotOf = (axis: Selector | null) => (axis === null ? 3 : SELECTORS.indexOf(axis));

/** For each entry of an axis, its index in the selection, or -1. */
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

/**
 * The sites that a call reads and edits: makes the module's options for each piece, and collects the tensors that are
 * read.
 */
export class SitePlan {
  /** Whether all texts must be computed in one batch. */
  readonly needsAll: boolean;
  /**
   * The first layer that must run. Earlier layers are skipped if an edit sets the whole input of this layer and nothing
   * reads or edits an earlier site.
   */
  readonly firstLayer: number;
  /** The number of texts in the call. */
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
    if (lacking) {
      const own = axes.flatMap(([axis]) => axis ?? []).join(', ');
      throw invalid(`${argument}.${lacking}`, `one of the axes of '${target.name}' (${own})`, `'${lacking}'`);
    }
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

  /**
   * The module's options for `rows`, the first of which is text `first` of the call. Default: all rows, without
   * padding.
   */
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
    // Leaves out edits that apply only to other texts, to save copying.
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

  /** The tensor that was read at a site. */
  tensor(name: string): Tensor {
    const { axes, data, tensor } = this.#reads.get(name)!;
    return tensor ?? new Tensor(data, shapeOf(axes));
  }

  /** The tensors that were read, by the names of their sites. */
  activations(): Record<string, Tensor> {
    const named = [...this.#reads].filter(([, { isNamed }]) => isNamed);
    return Object.fromEntries(named.map(([name]) => [name, this.tensor(name)]));
  }
}

/** Plans a call; null if it reads and edits nothing. */
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
  if (result === values) return values; // in-place changes, such as `fill`, return the same array
  const { data, shape: got } = readTensor(argument, result);
  if (formatShape(got) === formatShape(shape)) return data;
  throw invalid(argument, expected, formatShape(got), 'SHAPE_MISMATCH');
}

/** The rows of `count` texts of `length` tokens each, without padding. */
export function fullRows(count: number, length: number): PaddedRow[] {
  const columns = Array.from({ length }, (_, i) => i);
  return Array.from({ length: count }, () => ({ columns }));
}
