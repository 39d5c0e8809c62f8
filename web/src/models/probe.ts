/** How a file recognizes the model that it belongs to: by the model's vectors of a fixed text. */

/**
 * The text. It is short, so that a prompt before it changes the vector strongly, and contains letters, a digit and a
 * Chinese and Japanese character, so that every tokenizer knows a part of it. Must not change: saved files would no
 * longer recognize their models.
 */
export const PROBE = 'a bee, 2 人';

/**
 * The minimum cosine between vectors of the same model, by the smaller number of bits per weight of the two.
 * docs/search.md lists the measurements for int8, 4 bits and bfloat16. The limit for a GPU follows from the tolerance
 * of the check of its rows; it has not been measured.
 */
export const MIN_COSINES: Readonly<Record<number, number>> = { 16: 0.9995, 8: 0.98, 4: 0.9 };
