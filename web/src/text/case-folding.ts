/** Characters that differ only in case, according to Unicode case folding. */

interface Folding {
  /** For each character with variants, all characters with the same simple case folding. */
  variants: Map<string, string[]>;
  /** Characters whose full case folding has several characters, by that folding, such as ß and ẞ by `ss`. */
  long: Map<string, string[]>;
}

let folding: Folding | undefined;

function foldings(): Folding {
  if (folding) return folding;
  const groups = new Map<string, string[]>();
  const long = new Map<string, string[]>();
  const add = (map: Map<string, string[]>, key: string, point: string) => {
    const points = map.get(key);
    if (points) points.push(point);
    else map.set(key, [point]);
  };
  for (let code = 0x41; code < 0x1ffff; code++) {
    const point = String.fromCodePoint(code);
    if (!/\p{Changes_When_Casemapped}/u.test(point)) continue;
    const folded = point.toUpperCase().toLowerCase().toUpperCase().toLowerCase(); // twice, for ẞ
    if ([...folded].length > 1) add(long, folded, point);
    add(groups, [...folded].length > 1 ? point.toLowerCase() : folded, point);
  }
  const variants = new Map<string, string[]>();
  for (const group of groups.values())
    for (const point of group) {
      // Case mapping equates more than case folding does, for example the dotless i and I.
      const equal = new RegExp(`^\\u{${point.codePointAt(0)!.toString(16)}}$`, 'iu');
      const same = group.filter((each) => equal.test(each));
      if (same.length > 1) variants.set(point, same);
    }
  folding = { variants, long };
  return folding;
}

/** A character and its case variants. */
export const caseVariants = (point: string): string[] => foldings().variants.get(point) ?? [point];

/** All characters that have case variants. */
export const casedCharacters = (): Iterable<string> => foldings().variants.keys();

/** The characters whose folding is a sequence, by that sequence. */
export const longFoldings = (): ReadonlyMap<string, readonly string[]> => foldings().long;
