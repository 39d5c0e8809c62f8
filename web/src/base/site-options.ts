/** The options `read` and `edit`, and their validation. Whether an edit matches its site is checked in site-plan.ts. */
import { describe, guarded, invalid } from './error.js';
import { integer, listOf, optional, type Reader, requireKnown, text } from './options.js';
import { SELECTORS, type Selector } from './sites.js';
import { readTensor, type Tensor, type TensorInput } from './tensor.js';
import type { RawTensor } from './wasm/core.js';

/**
 * An edit of a site, with exactly one of `scale`, `add`, `set` and `map`. Tensors broadcast from the right to the
 * selection. `texts`, `heads`, `positions` (of queries; at `keys` and `values`, of keys) and, at `scores` and
 * `weights`, `keys` select entries along the site's axes. Default: all entries.
 */
export interface SiteEdit {
  /** The name of the site, such as `layers.2.heads`; `*` stands for every layer. */
  site: string;
  /** The texts that are edited. Default: all. */
  texts?: readonly number[] | undefined;
  /** The heads that are edited. Default: all. */
  heads?: readonly number[] | undefined;
  /** The positions that are edited. Default: all. */
  positions?: readonly number[] | undefined;
  /** At `scores` and `weights`: the keys that are edited. Default: all. */
  keys?: readonly number[] | undefined;
  /** Factors by which the values are multiplied. */
  scale?: TensorInput | number | undefined;
  /** Numbers that are added to the values. */
  add?: TensorInput | number | undefined;
  /**
   * New values, or 'mean': the mean over all tokens of the call (at `scores` and `weights`, over the rows of queries).
   */
  set?: TensorInput | number | 'mean' | undefined;
  /**
   * A function that receives the selection, padded with zeros. It changes the selection in place and returns nothing or
   * its data, or it returns another tensor of the same shape. Called once per site and call. It may call heed, but must
   * not change modules that the call uses. Not supported in workers.
   */
  // biome-ignore lint/suspicious/noConfusingVoidType: functions that return nothing are meant, too
  map?: ((selection: Tensor) => Tensor | Float32Array | void) | undefined;
}

/** Options of calls that can edit activations. */
export interface EditOptions {
  /** Edits of activations, applied in this order; see docs/lens.md. */
  edit?: readonly SiteEdit[] | undefined;
}

/** Options of calls that can read and edit activations. */
export interface SiteOptions extends EditOptions {
  /**
   * Names of sites, such as `layers.0.weights` or `layers.*.heads`; see docs/lens.md. The result's `activations` has
   * one tensor per site.
   */
  read?: readonly string[] | undefined;
}

/** The verbs in the order of heed/sites.h, where the mean comes between `set` and `map`. */
export const VERBS = ['scale', 'add', 'set', 'map'] as const;
export const SCALE = 0;
export const SET = 2;
export const MEAN = 3;
export const MAP = 4;

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
export type ReadSites = {
  read?: string[] | null | undefined;
  edit: ReadEdit[] | null;
  also?: string[] | undefined;
  showsLayers?: boolean | undefined;
};
