/**
 * Reads and edits the sites of a run, as heed/sites.h does in C++. Edited values are read back, edited on the CPU and
 * written again.
 */
import { HeedError } from '../base/error.js';
import { MAP, MEAN, SCALE, SET } from '../base/site-options.js';
import { codeOf, isMatrix, type SiteName, siteOf } from '../base/sites.js';
import type { RawSites } from '../base/wasm/core.js';
import type { Recorder, Recording } from './device.js';
import type { Binding } from './webgpu.js';

/** The columns that hold a site's values: `width` columns from `begin` on, divided into `heads` of equal width. */
interface Columns {
  site: SiteName;
  heads: number;
  begin: number;
  width: number;
}

export class RunSites {
  readonly #raw: RawSites;
  readonly #reads: Set<number>;
  /** Per row: its text, and its column in padded tensors. */
  readonly #places: { text: number; column: number }[] = [];

  constructor(raw: RawSites, lengths: Int32Array) {
    this.#raw = raw;
    this.#reads = new Set(raw.reads);
    lengths.forEach((length, text) => {
      for (let i = 0; i < length; i++) this.#places.push({ text, column: raw.columns?.[this.#places.length] ?? i });
    });
    const codes = new Set(raw.edits.map(({ code }) => code));
    for (const code of codes)
      if (isMatrix(siteOf(code)))
        throw new HeedError(
          'UNSUPPORTED',
          "edit: 'scores' and 'weights' cannot be edited on a GPU. With device: 'auto' or 'wasm', WebAssembly edits them",
        );
  }

  touches(layer: number, site: SiteName): boolean {
    const code = codeOf({ layer, site });
    return this.#reads.has(code) || this.#raw.edits.some((edit) => edit.code === code);
  }

  read(layer: number, site: SiteName, values: Float32Array): void {
    const code = codeOf({ layer, site });
    if (this.#reads.has(code)) this.#raw.read(code, values);
  }

  /**
   * Reads and edits sites of `layer` whose values are columns of x. An edit ends the submission, because it needs a
   * read-back.
   */
  *visit(to: Recorder, layer: number, x: Binding, sites: readonly Columns[]): Recording {
    const touched = sites.filter(({ site }) => this.touches(layer, site));
    if (touched.length === 0) return;
    const isEdited = ({ site }: Columns) => this.#raw.edits.some(({ code }) => code === codeOf({ layer, site }));
    const readAll = (rows: Float32Array) => {
      for (const each of touched) this.read(layer, each.site, this.#columnsOf(rows, each));
    };
    if (!touched.some(isEdited)) return to.read(x, readAll);
    let rows: Float32Array = new Float32Array();
    to.read(x, (values) => {
      rows = values;
    });
    yield;
    for (const each of touched.filter(isEdited)) {
      const values = this.#columnsOf(rows, each);
      this.#raw.edits.forEach(({ code }, i) => {
        if (code === codeOf({ layer, site: each.site })) this.#edit(i, values, each.heads);
      });
      this.#columnsOf(rows, each, values);
    }
    to.write(x.name!, rows);
    readAll(rows);
  }

  /** A site's values in `rows`, [M, width]. If `given` is passed, first sets them to it. */
  #columnsOf(rows: Float32Array, { begin, width }: Columns, given?: Float32Array): Float32Array {
    const count = this.#places.length;
    const stride = rows.length / count;
    if (width === stride) return rows;
    const values = given ?? new Float32Array(count * width);
    for (let m = 0; m < count; m++) {
      const own = rows.subarray(m * stride + begin, m * stride + begin + width);
      if (given) own.set(values.subarray(m * width, (m + 1) * width));
      else values.set(own, m * width);
    }
    return values;
  }

  /** Applies edit `index` to its site's values [M, heads * width]; here `width` is that of one head. */
  #edit(index: number, values: Float32Array, heads: number): void {
    const { verb, selected, extents, strides, operand } = this.#raw.edits[index]!;
    const width = values.length / this.#places.length / heads;
    /** Index in the selection of entry i of an axis, or -1. */
    const chosen = (axis: number, i: number) => (selected[axis] ? (selected[axis][i] ?? -1) : i);
    /** Calls `change` with the index of each selected value and the index of its operand. */
    const each = ([n, h, l, d]: readonly number[], change: (at: number, from: number) => void) => {
      this.#places.forEach(({ text, column }, m) => {
        for (let head = 0; head < heads; head++) {
          const at = [chosen(0, text), chosen(1, head), chosen(2, column)] as const;
          if (Math.min(...at) < 0) continue;
          const first = at[0] * n! + at[1] * h! + at[2] * l!;
          for (let e = 0; e < width; e++) change((m * heads + head) * width + e, first + e * d!);
        }
      });
    };
    if (verb === MEAN) {
      const sums = new Float64Array(heads * width);
      values.forEach((value, at) => {
        sums[at % sums.length]! += value;
      });
      each(strides, (at) => {
        values[at] = sums[at % sums.length]! / this.#places.length;
      });
    } else if (verb === MAP) {
      const own = [extents[1]! * extents[2]! * extents[3]!, extents[2]! * extents[3]!, extents[3]!, 1];
      const selection = new Float32Array(extents[0]! * own[0]!);
      each(own, (at, from) => {
        selection[from] = values[at]!;
      });
      const changed = this.#raw.map(index, selection);
      each(own, (at, from) => {
        values[at] = changed[from]!;
      });
    } else {
      const by = operand!.data;
      each(strides, (at, from) => {
        const value = by[from]!;
        values[at] = verb === SET ? value : verb === SCALE ? values[at]! * value : values[at]! + value;
      });
    }
  }
}
