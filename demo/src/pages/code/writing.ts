/** JavaScript as text, for the programs that the pages show. */

/** Lines without those that are left out. */
export const program = (lines: (string | false | null | undefined)[]): string =>
  `${lines.filter((line) => line !== false && line !== null && line !== undefined).join('\n')}\n`;

/** A value as a literal; matrices and lists of texts have one row per line unless they are short. */
export function literal(value: unknown): string {
  if (!Array.isArray(value)) return scalar(value);
  const items = value.map(literal);
  const line = `[${items.join(', ')}]`;
  const isNested = value.some((item) => typeof item === 'object' || typeof item === 'string');
  return isNested && line.length > 70
    ? `[\n${items.map((item) => `  ${item.replaceAll('\n', '\n  ')},\n`).join('')}]`
    : line;
}

function scalar(value: unknown): string {
  if (typeof value === 'string')
    return `'${JSON.stringify(value).slice(1, -1).replaceAll('\\"', '"').replaceAll("'", "\\'")}'`;
  if (value === null || typeof value !== 'object') return String(value);
  const entries = Object.entries(value).filter(([, entry]) => entry !== undefined);
  return entries.length === 0 ? '{}' : `{ ${entries.map(([name, entry]) => `${name}: ${literal(entry)}`).join(', ')} }`;
}
