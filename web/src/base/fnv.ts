/** The FNV-1a hash, which detects changes, but not attacks. The platform's hashes take neither streams nor turns. */

/** The hash of no numbers. */
export const FNV_START = 0x811c9dc5;

/** Continues `hash` with these numbers, or with some of them, each taken as 32 bits. */
export function fnv(numbers: ArrayLike<number>, hash = FNV_START, { first = 0, step = 1 } = {}): number {
  let next = hash;
  for (let i = first; i < numbers.length; i += step) next = Math.imul(next ^ numbers[i]!, 0x01000193);
  return next;
}

/** Continues `hash` with the UTF-16 units of a text. */
export function fnvOfText(text: string, hash = FNV_START): number {
  let next = hash;
  for (let i = 0; i < text.length; i++) next = Math.imul(next ^ text.charCodeAt(i), 0x01000193);
  return next;
}
