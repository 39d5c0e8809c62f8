/** Finds groups of similar vectors, as `community_detection` of sentence-transformers' `util`. */
import { HeedError } from '../base/error.js';
import { finite, optional, readOptions, type Schema, size } from '../base/options.js';
import { type Corpus, eachUnorderedPair, type ProductOptions, productSchema, readUnitRows } from '../search/index.js';

export interface CommunityOptions extends ProductOptions {
  /** Minimum cosine of a vector with the center of its community. Default 0.75. */
  threshold?: number | undefined;
  /** Minimum number of members of a returned community, including its center. Default 10; clamped to N. */
  minCommunitySize?: number | undefined;
}

const schema = {
  ...productSchema,
  threshold: optional(finite, 0.75),
  minCommunitySize: optional(size, 10),
} satisfies Schema<CommunityOptions>;

/** Maximum number of pairs in memory, of 16 bytes each. */
const MOST_PAIRS = 2 ** 26;

/**
 * Finds communities among vectors [N,D]. A community is a center and all vectors whose cosine with it is at least
 * `threshold`. Communities do not overlap: larger ones take their members first, and vectors in no community are left
 * out. In contrast to k-means, the number of communities is not specified. Takes O(N²) time.
 *
 * Returns the row indices of each community, largest community first; within a community, the center comes first, then
 * the others by decreasing cosine.
 *
 * @example
 * const found = await communityDetection([[1, 0], [0, 1], [0.9, 0.1], [0.8, 0.1]], { minCommunitySize: 2 });
 * found; // [[0, 2, 3]]
 * @throws HeedError INVALID_ARGUMENT for NaN or infinities; OUT_OF_MEMORY for more than 2^26 pairs above the threshold
 */
export async function communityDetection(vectors: Corpus, options?: CommunityOptions): Promise<number[][]> {
  const read = readOptions('communityDetection', schema, options);
  const rows = readUnitRows('vectors', vectors);
  const least = Math.fround(read.threshold);
  const minSize = Math.min(read.minCommunitySize, rows.count);
  const members = Array.from({ length: rows.count }, (_, index) => [{ index, score: Number.POSITIVE_INFINITY }]);
  let pairs = 0;
  await eachUnorderedPair(rows, read, (i, j, score) => {
    if (!(score >= least)) return;
    if (++pairs > MOST_PAIRS)
      throw new HeedError(
        'OUT_OF_MEMORY',
        `communityDetection: more than 2^26 pairs reach ${least}. Raise \`threshold\``,
      );
    members[i]!.push({ index: j, score });
    members[j]!.push({ index: i, score });
  });
  const bySize = members.filter(({ length }) => length >= minSize).sort((a, b) => b.length - a.length);
  const taken = new Set<number>();
  const communities: number[][] = [];
  for (const community of bySize) {
    const left = community.filter(({ index }) => !taken.has(index));
    if (left.length < minSize) continue;
    const sorted = left.sort((a, b) => b.score - a.score || a.index - b.index).map(({ index }) => index);
    for (const index of sorted) taken.add(index);
    communities.push(sorted);
  }
  return communities.sort((a, b) => b.length - a.length);
}
