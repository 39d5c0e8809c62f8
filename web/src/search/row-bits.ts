/** Bitmaps of rows: row n is bit n % 32 of word n >> 5. */

export const hasRow = (bits: Uint32Array, row: number): boolean => ((bits[row >> 5]! >>> (row & 31)) & 1) === 1;

/** Sets the bits of rows [first, end). Returns the same bitmap if its capacity suffices, else a larger copy. */
export function withRows(bits: Uint32Array, first: number, end: number): Uint32Array {
  const words = Math.ceil(end / 32);
  let out = bits;
  if (words > bits.length) {
    out = new Uint32Array(Math.max(words, Math.ceil(1.25 * bits.length)));
    out.set(bits);
  }
  for (let row = first; row < end; ) {
    if (row % 32 === 0 && row + 32 <= end) {
      out[row >> 5] = 0xffffffff;
      row += 32;
    } else {
      out[row >> 5]! |= 1 << (row & 31);
      row++;
    }
  }
  return out;
}

/** The rows of a bitmap, in ascending order. */
export function rowsIn(bits: Uint32Array): Uint32Array {
  let count = 0;
  for (const word of bits) count += ones(word);
  const rows = new Uint32Array(count);
  let at = 0;
  for (let word = 0; word < bits.length; word++) {
    for (let left = bits[word]!; left !== 0; left &= left - 1) rows[at++] = 32 * word + lowest(left);
  }
  return rows;
}

/** The number of rows before each word. */
export function ranksOf(bits: Uint32Array): Uint32Array {
  const ranks = new Uint32Array(bits.length);
  for (let word = 1; word < bits.length; word++) ranks[word] = ranks[word - 1]! + ones(bits[word - 1]!);
  return ranks;
}

/** The number of rows before `row`. */
export const rankOf = (bits: Uint32Array, ranks: Uint32Array, row: number): number =>
  ranks[row >> 5]! + ones(bits[row >> 5]! & ((1 << (row & 31)) - 1));

const lowest = (word: number) => 31 - Math.clz32(word & -word);

/** The number of ones of a 32-bit word. */
function ones(word: number): number {
  let n = word - ((word >>> 1) & 0x55555555);
  n = (n & 0x33333333) + ((n >>> 2) & 0x33333333);
  return Math.imul((n + (n >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
}
