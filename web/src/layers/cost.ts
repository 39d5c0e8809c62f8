/**
 * What layers cost. A flop is one multiplication or one addition of a matrix product; softmax, norms and activations grow more slowly and are left out, as is customary.
 * Letters: L length, S length of what is attended across to, E width, H heads, Dk / Dv key / value width of a head, k kernel size.
 */
import { count, flag, integer, optional, readOptions, type Schema, size } from '../options.js';
import { formatShape } from '../tensor.js';

/** A parameter as the core lists it. */
interface Listed {
  name: string;
  shape: readonly number[];
}

export interface FlopsOptions {
  /** S: the keys of cross-attention, the memory of a decoder, the source of a Transformer. Default: the length itself. */
  keyLength?: number;
  /** Self-attention is causal; default false. */
  causal?: boolean;
  /** Self-attention is limited to |i - j| <= window. Default: not. */
  window?: number;
}

const flopsSchema = {
  keyLength: optional(size, null),
  causal: optional(flag, false),
  window: optional(count, null),
} satisfies Schema<FlopsOptions>;

/** The flops of one pass over `length` rows, by the matrices of a layer, whose names tell how they are applied. */
export function layerFlops(
  name: string,
  parameters: readonly Listed[],
  length: number,
  options?: FlopsOptions,
): number {
  const rows = integer(length, `${name}.flops: length`, 1);
  const read = readOptions(`${name}.flops`, flopsSchema, options);
  const across = read.keyLength ?? rows;
  const isTransformer = parameters.some((parameter) => parameter.name.startsWith('encoder.'));
  const isLoneAttention = parameters.some((parameter) => parameter.name === 'out_proj.weight');
  let total = 0;
  for (const { name: parameter, shape } of parameters) {
    if (shape.length !== 2 || name === 'PositionalEncoding') continue; // its table is added, not multiplied
    const [out, width] = shape as [number, number];
    const queries = isTransformer && parameter.startsWith('encoder.') ? across : rows;
    const crosses = isLoneAttention || parameter.includes('multihead_attn.');
    const keys = crosses ? across : queries;
    if (parameter.endsWith('in_proj_weight')) {
      total +=
        (2 / 3) * out * width * (queries + 2 * keys) +
        2 * (out / 3) * pairs(queries, keys, read, crosses && !isLoneAttention);
    } else if (/(k|v)_proj_weight$/.test(parameter)) {
      total += 2 * out * width * keys;
    } else if (parameter.endsWith('q_proj_weight')) {
      total += 2 * out * width * queries + 2 * out * pairs(queries, keys, read, crosses && !isLoneAttention);
    } else {
      total += 2 * out * width * queries;
      if (parameter.endsWith('out_proj.weight'))
        total += 2 * width * pairs(queries, keys, read, crosses && !isLoneAttention);
    }
  }
  return total;
}

/** How many pairs of a query and a key the masks leave. */
function pairs(
  queries: number,
  keys: number,
  { causal, window }: { causal: boolean; window: number | null },
  unmasked: boolean,
): number {
  if (unmasked || (!causal && window === null)) return queries * keys;
  const reach = window ?? Infinity;
  return queries * keys - above(queries, keys, causal ? 0 : reach) - above(keys, queries, reach);
}

/** How many pairs of i < rows and j < columns have j - i > distance. */
function above(rows: number, columns: number, distance: number): number {
  const triangle = (n: number) => (n > 0 ? (n * (n + 1)) / 2 : 0);
  return triangle(columns - distance - 1) - triangle(columns - distance - 1 - rows);
}

/** A table of a layer's parameters, and its flops where a length is given. */
export function layerSummary(
  name: string,
  parameters: readonly Listed[],
  counted: number,
  flops: { length: number; flops: number } | null,
): string {
  const rows = parameters.map((parameter) => [
    parameter.name,
    formatShape(parameter.shape),
    thousands(parameter.shape.reduce((a, b) => a * b, 1)),
  ]);
  const table = [['parameter', 'shape', 'count'], ...rows] as [string, string, string][];
  const widths = [0, 1, 2].map((column) => Math.max(...table.map((row) => row[column as 0 | 1 | 2].length)));
  const lines = table.map(([a, b, c]) => `${a.padEnd(widths[0]!)}  ${b.padEnd(widths[1]!)}  ${c.padStart(widths[2]!)}`);
  const bytes = parameters.reduce((sum, { shape }) => sum + 4 * shape.reduce((a, b) => a * b, 1), 0);
  return [
    name,
    ...(rows.length > 0 ? lines.map((line) => `  ${line.trimEnd()}`) : []),
    `${thousands(counted)} parameters, ${thousands(bytes)} bytes`,
    ...(flops ? [`${thousands(flops.flops)} flops at length ${thousands(flops.length)}`] : []),
  ].join('\n');
}

function thousands(value: number): string {
  return Math.round(value)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ',');
}

export interface CostOptions {
  /** d, width of the input */
  dim: number;
  /** d_k, width of queries and keys; default dim. */
  keyDim?: number;
  /** d_v, width of the output; default dim. */
  valueDim?: number;
  /** k, positions that the convolution sees; default 3. */
  kernelSize?: number;
}

const costSchema = {
  dim: size,
  keyDim: optional(size, null),
  valueDim: optional(size, null),
  kernelSize: optional(size, 3),
} satisfies Schema<CostOptions>;

/** What one layer costs. */
export interface Cost {
  flops: number;
  parameters: number;
  /** How the flops grow, as papers write it. */
  complexity: string;
}

/**
 * Four ways to let L positions of width d see each other and give L positions of width d_v (Vaswani et al. 2017, arXiv:1706.03762, table 1).
 * Without biases. The dense layer reads the whole sequence and is applied once for each output position.
 */
export function compareCosts(
  length: number,
  options: CostOptions,
): Record<'attention' | 'dense' | 'convolution' | 'recurrent', Cost> {
  const L = integer(length, 'flops: length', 1);
  const { dim: d, keyDim, valueDim, kernelSize: k } = readOptions('flops', costSchema, options);
  const [dk, dv] = [keyDim ?? d, valueDim ?? d];
  return {
    attention: {
      flops: 2 * L * d * (2 * dk + dv) + 2 * L * L * (dk + dv),
      parameters: 2 * d * dk + d * dv,
      complexity: 'O(L^2 d_k)',
    },
    dense: { flops: 2 * L * L * d * dv, parameters: L * d * dv, complexity: 'O(L^2 d d_v)' },
    convolution: { flops: 2 * L * k * d * dv, parameters: k * d * dv, complexity: 'O(L k d d_v)' },
    recurrent: { flops: 2 * L * dv * (d + dv), parameters: d * dv + dv * dv, complexity: 'O(L d d_v)' },
  };
}
