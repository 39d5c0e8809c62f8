/**
 * The sites that a call reads and edits. The WebAssembly module does the reading and editing (heed/sites.h). Notation:
 * N texts, L rows of the longest text, S keys, H heads, D width of a head.
 */

import { describe, floatsOf, formatShape, HeedError, invalid, misshapen } from './error.js';
import { maxOf } from './lists.js';
import { fullRows, type PaddedRow, padHeads, padWeights } from './padding.js';
import { needsAll, type ReadEdit, type ReadSites, SET, type SiteEdit, VERBS } from './site-options.js';
import {
  type Axis,
  axesOf,
  codeOf,
  isInput,
  isMatrix,
  layerOf,
  SELECTORS,
  type Selector,
  type SiteLayout,
  shapeOf,
  type Target,
  targetsOf,
} from './sites.js';
import { readTensor, Tensor } from './tensor.js';
import type { RawSiteEdit, RawSites } from './wasm/core.js';

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

/** A site that is read. `isNamed`: whether it is among the result's `activations`. */
interface SiteRead extends Target {
  code: number;
  axes: Axis[];
  data: Float32Array;
  isNamed: boolean;
  tensor?: Tensor | undefined;
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
  readonly #reads = new Map<string, SiteRead>();

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
        const axes = axesOf(target.site, target.sizes);
        const data = floatsOf(owner, shapeOf(axes));
        this.#reads.set(target.name, { ...target, code: codeOf(target), axes, data, isNamed: i < named.length });
      }
    this.needsAll = edit?.some(needsAll) ?? false;
    const seen = [
      ...[...this.#reads.values()].map(({ code }) => layerOf(code)),
      ...this.#edits.filter(({ mapping }) => mapping).map(({ raw }) => layerOf(raw.code)),
    ];
    const set = this.#edits
      .filter(({ raw, selected }) => isInput(raw.code) && raw.verb === SET && selected.every((axis) => axis === null))
      .map(({ raw }) => layerOf(raw.code));
    this.firstLayer = showsLayers ? 0 : maxOf([0, ...set.filter((layer) => seen.every((other) => other >= layer))]);
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
      throw misshapen(
        `${argument}.${VERBS[verb]}`,
        `a tensor that broadcasts to the selection, ${formatShape(shape)}`,
        given,
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
    const readsAt = (code: number) => [...this.#reads.values()].filter((read) => read.code === code);
    const layoutOf = ({ site, sizes, axes }: SiteRead) => {
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
        for (const read of readsAt(code)) {
          const { heads, rows, keys } = layoutOf(read);
          const [length, dim] = read.axes.slice(-2).map(([, extent]) => extent) as [number, number];
          const out = read.data.subarray(first * heads * length * dim);
          if (keys) padWeights(values, rows, length, heads, out, keys, dim);
          else padHeads(values, rows, length, heads, dim, out);
        }
      },
      map: (edit, values) => mapped(edits[edit]!.mapping!, values),
      layoutOf: (code) => {
        const all = readsAt(code);
        return { names: all.map(({ name }) => name), shape: shapeOf(all[0]!.axes), ...layoutOf(all[0]!) };
      },
      keep: (code, tensor) => {
        for (const read of readsAt(code)) read.tensor = tensor as Tensor;
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
    const named = [...this.#reads.values()].filter(({ isNamed }) => isNamed);
    return Object.fromEntries(named.map(({ name }) => [name, this.tensor(name)]));
  }
}

/** Plans a call; null if it reads and edits nothing. */
export function planSites(call: ReadSites, layout: () => SiteLayout): SitePlan | null {
  return call.read || call.edit || call.also?.length ? new SitePlan(call, layout()) : null;
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
    throw invalid(argument, `${expected}, synchronously`, 'a promise');
  if (result === values) return values; // in-place changes, such as `fill`, return the same array
  const { data, shape: got } = readTensor(argument, result);
  if (formatShape(got) === formatShape(shape)) return data;
  throw misshapen(argument, expected, got);
}
