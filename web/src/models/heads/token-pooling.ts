/**
 * Joins similar token vectors of a document, so that fewer are stored (Clavié, Chaffin, Adams 2024, arXiv:2409.14683),
 * as sentence-transformers' HierarchicalTokenPooling: clusters by Ward's method (Ward 1963) on cosine distances, and the
 * mean of each cluster. Notation: n vectors of width D.
 */
import { append } from '../../base/lists.js';
import type { RawTensor } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import { dot, normalized } from '../quantized.js';

/** The settings of HierarchicalTokenPooling. */
export interface TokenPooling {
  /** About one vector for so many tokens is kept. */
  factor: number;
  /** The number of vectors at the beginning that are kept. */
  kept: number;
  /** Whether the vectors are scaled to unit norm. */
  normalize: boolean;
  tasks: string[];
}

export function readTokenPooling(settings: Settings): TokenPooling {
  const factor = settings.get('pool_factor') ?? 1;
  if (typeof factor !== 'number' || !(factor >= 1))
    throw settings.wrong('pool_factor', 'a number of at least 1', factor);
  return {
    factor,
    kept: settings.count('num_protected_tokens', 1),
    normalize: settings.flag('normalize_embeddings', false),
    tasks: tasksIn(settings, 'tasks'),
  };
}

/** The tasks to whose texts a module applies: a name or a list of names. */
export function tasksIn(settings: Settings, key: string): string[] {
  const given = settings.get(key) ?? ['document'];
  const list: unknown[] = [given].flat();
  if (list.every((each) => typeof each === 'string')) return list;
  throw settings.wrong(key, 'a list of tasks', given);
}

/** The pooled vectors of a text's vectors [n, D], which have unit norm. */
export function pooledTokens({ data, shape }: RawTensor, { factor, kept, normalize }: TokenPooling): RawTensor {
  const [count, width] = shape as [number, number];
  const rowOf = (n: number) => data.subarray(n * width, (n + 1) * width);
  const rows = Array.from({ length: Math.min(kept, count) }, (_, n) => rowOf(n));
  const others = Array.from({ length: count - rows.length }, (_, n) => rows.length + n);
  const clusters = Math.max(1, Math.floor(others.length / factor));
  if (factor > 1 && clusters < others.length) {
    const labels = wardLabels(distances(data, others, width), others.length, clusters);
    const sums = new Map<number, { sum: Float32Array; members: number }>();
    others.forEach((n, i) => {
      const cluster = sums.get(labels[i]!) ?? { sum: new Float32Array(width), members: 0 };
      rowOf(n).forEach((value, e) => {
        cluster.sum[e]! += value;
      });
      cluster.members++;
      sums.set(labels[i]!, cluster);
    });
    const inOrder = [...sums].sort(([a], [b]) => a - b);
    for (const [, { sum, members }] of inOrder) rows.push(sum.map((value) => value / members));
  } else {
    append(rows, others.map(rowOf));
  }
  const out = new Float32Array(rows.length * width);
  rows.forEach((row, n) => out.set(normalize ? normalized(row) : row, n * width));
  return { data: out, shape: [rows.length, width] };
}

/** The cosine distances 1 - x_i x_j of unit vectors, [n, n]. */
function distances(data: Float32Array, rows: readonly number[], width: number): Float64Array {
  const n = rows.length;
  const out = new Float64Array(n * n);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < i; j++) {
      const distance = Math.min(2, Math.max(0, Math.fround(1 - dot(data, rows[i]!, data, rows[j]!, width))));
      out[i * n + j] = distance;
      out[j * n + i] = distance;
    }
  return out;
}

interface Merge {
  /** The clusters that are joined: below n, a vector; n + i, the i-th merge. The first is the smaller. */
  parts: [number, number];
  distance: number;
}

/** The merges of n vectors, by ascending distance: Ward's method by chains of nearest neighbours (Murtagh 1983). */
function wardMerges(between: Float64Array, n: number): Merge[] {
  const sizes = new Array<number>(n).fill(1);
  const found: Merge[] = [];
  let chain: number[] = [];
  while (found.length < n - 1) {
    if (chain.length === 0) chain = [sizes.findIndex((size) => size > 0)];
    const x = chain.at(-1)!;
    const before = chain.at(-2);
    let y = before ?? -1;
    let least = before === undefined ? Infinity : between[x * n + before]!;
    for (let i = 0; i < n; i++)
      if (i !== x && sizes[i]! > 0 && between[x * n + i]! < least) {
        y = i;
        least = between[x * n + i]!;
      }
    if (y !== before) {
      chain.push(y);
      continue;
    }
    chain.splice(-2);
    const [gone, joined] = x < y ? [x, y] : [y, x];
    found.push({ parts: [gone, joined], distance: least });
    const [a, b] = [sizes[gone]!, sizes[joined]!];
    sizes[gone] = 0;
    sizes[joined] = a + b;
    for (let i = 0; i < n; i++) {
      const c = sizes[i]!;
      if (c === 0 || i === joined) continue;
      const squares = (a + c) * between[i * n + gone]! ** 2 + (b + c) * between[i * n + joined]! ** 2 - c * least ** 2;
      const distance = Math.sqrt(squares / (a + b + c));
      between[i * n + joined] = distance;
      between[joined * n + i] = distance;
    }
  }
  found.sort((a, b) => a.distance - b.distance);
  const parents = Array.from({ length: 2 * n - 1 }, (_, i) => i);
  const rootOf = (cluster: number) => {
    let root = cluster;
    while (parents[root] !== root) root = parents[root]!;
    return root;
  };
  return found.map(({ parts, distance }, i) => {
    const [a, b] = parts.map(rootOf) as [number, number];
    parents[a] = n + i;
    parents[b] = n + i;
    return { parts: a < b ? [a, b] : [b, a], distance };
  });
}

/**
 * The cluster of each vector, for at most `count` clusters: those below the largest merges. Clusters are numbered as
 * scipy's `fcluster` numbers them: in the order of the tree, joined clusters before single vectors.
 */
function wardLabels(between: Float64Array, n: number, count: number): number[] {
  const merges = wardMerges(between, n);
  const limit = merges[n - 1 - count]!.distance;
  const labels = new Array<number>(n).fill(0);
  let last = 0;
  const visit = (merge: number, isWithin: boolean) => {
    const { parts, distance } = merges[merge]!;
    const joins = isWithin || distance <= limit;
    if (joins && !isWithin) last++;
    for (const part of parts) if (part >= n) visit(part - n, joins);
    for (const part of parts)
      if (part < n) {
        if (!joins) last++;
        labels[part] = last;
      }
  };
  visit(n - 2, false);
  return labels;
}
