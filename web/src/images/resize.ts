/**
 * Resizes 8-bit RGB images with the same bits as Pillow's `Image.resize`: a filter whose support grows with the scale
 * (antialiasing), horizontally and then vertically, with fixed-point weights, and rounding to bytes after each pass.
 */

/** Interleaved RGB bytes, row by row. */
export interface Rgb {
  data: Uint8Array | Uint8ClampedArray;
  width: number;
  height: number;
}

/** The number of fractional bits of the weights. */
const PRECISION = 22;

interface Filter {
  support: number;
  /** The weight at a distance x >= 0 from the center, in pixels of the smaller grid. */
  at(x: number): number;
}

/** Filters by Pillow's numbers, which preprocessor_config.json has as `resample`. */
export const FILTERS: Record<number, Filter> = {
  2: { support: 1, at: (x) => Math.max(0, 1 - x) },
  // Keys 1981, with a = -0.5
  3: {
    support: 2,
    at: (x) => (x < 1 ? (1.5 * x - 2.5) * x * x + 1 : x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0),
  },
};

/**
 * For each of `to` output pixels, the first of the `from` input pixels that contribute to it, and their weights, which
 * sum to 1.
 */
export function filterWeights(from: number, to: number, filter: Filter): { first: number; weights: number[] }[] {
  const scale = from / to;
  const stretch = Math.max(scale, 1);
  const support = filter.support * stretch;
  return Array.from({ length: to }, (_, i) => {
    const center = (i + 0.5) * scale;
    const first = Math.max(0, Math.trunc(center - support + 0.5));
    const end = Math.min(from, Math.trunc(center + support + 0.5));
    const values = Array.from({ length: end - first }, (_, x) =>
      filter.at(Math.abs((x + first - center + 0.5) * (1 / stretch))),
    );
    const sum = values.reduce((a, b) => a + b, 0);
    return { first, weights: values.map((value) => value / sum) };
  });
}

/** Interleaved bytes or fractions. */
export type Samples = Rgb['data'] | Float32Array;

/**
 * Resamples the middle axis of [outer, from, inner] to `to` entries. Along rows, `inner` is 3; along columns, it is a
 * whole row. `exact`: whether the results are fractions rather than bytes.
 */
function resampled(
  data: Samples,
  [outer, from, inner]: [number, number, number],
  to: number,
  filter: Filter,
  exact: boolean,
): Samples {
  if (from === to) return data;
  const out = exact ? new Float32Array(outer * to * inner) : new Uint8ClampedArray(outer * to * inner);
  const fixed = (weight: number) => Math.round(Math.abs(weight) * 2 ** PRECISION) * Math.sign(weight);
  const all = filterWeights(from, to, filter).map(({ first, weights }) => ({
    first,
    factors: exact ? Float64Array.from(weights) : Int32Array.from(weights, fixed),
  }));
  for (let line = 0; line < outer; line++) {
    for (let i = 0; i < to; i++) {
      const { first, factors } = all[i]!;
      const at = (line * to + i) * inner;
      const begin = (line * from + first) * inner;
      for (let c = 0; c < inner; c++) {
        let sum = exact ? 0 : 1 << (PRECISION - 1);
        for (let x = 0, p = begin + c; x < factors.length; x++, p += inner) sum += data[p]! * factors[x]!;
        out[at + c] = exact ? sum : sum >> PRECISION;
      }
    }
  }
  return out;
}

/**
 * Resizes an image to interleaved values [height, width, 3]: bytes or, with `exact`, fractions, as
 * torch.nn.functional.interpolate with `antialias=True`.
 */
export function resize(image: Rgb, width: number, height: number, filter: Filter, exact = false): Samples {
  const wide = resampled(image.data, [image.height, image.width, 3], width, filter, exact);
  return resampled(wide, [1, image.height, 3 * width], height, filter, exact);
}

/** Crops the center to the given size, as Hugging Face's `center_crop`; pads with black where the image is smaller. */
export function centerCrop(image: Rgb, width: number, height: number): Rgb {
  const offset = (have: number, want: number) => Math.floor((have - want) / 2); // negative where the image is smaller
  const [left, top] = [offset(image.width, width), offset(image.height, height)];
  const data = new Uint8ClampedArray(3 * width * height);
  for (let y = Math.max(0, -top); y < Math.min(height, image.height - top); y++) {
    const first = Math.max(0, -left);
    const end = Math.min(width, image.width - left);
    const begin = 3 * ((y + top) * image.width + first + left);
    data.set(image.data.subarray(begin, begin + 3 * (end - first)), 3 * (y * width + first));
  }
  return { data, width, height };
}
