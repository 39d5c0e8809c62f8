/** Spellings of values in the URL. */
import type { Codec } from './url';

export const text: Codec<string> = { read: (value) => value, write: (value) => value };

export const flag: Codec<boolean> = { read: (value) => value === '1', write: (value) => (value ? '1' : '0') };

export function choice<T extends string>(...options: readonly T[]): Codec<T> {
  return { read: (value) => options.find((option) => option === value), write: (value) => value };
}

export function number(least: number, most: number): Codec<number> {
  return { read: (value) => within(value, least, most), write: String };
}

export function integer(least: number, most: number): Codec<number> {
  return {
    read: (value) => {
      const parsed = within(value, least, most);
      return Number.isInteger(parsed) ? parsed : undefined;
    },
    write: String,
  };
}

/** `null` is written as an empty value. */
export function optional<T>(codec: Codec<T>): Codec<T | null> {
  return {
    read: (value) => (value === '' ? null : codec.read(value)),
    write: (value) => (value === null ? '' : codec.write(value)),
  };
}

export function list<T>(item: Codec<T>, separator = ','): Codec<T[]> {
  return {
    read: (value) => {
      const items = value === '' ? [] : value.split(separator).map((part) => item.read(part));
      return items.every((entry) => entry !== undefined) ? items : undefined;
    },
    write: (items) => items.map((entry) => item.write(entry)).join(separator),
  };
}

/** Rows of equal length: `1,0;0,1`. */
export function matrix(least = -1000, most = 1000): Codec<number[][]> {
  const rows = list(list(number(least, most)), ';');
  return {
    read: (value) => {
      const parsed = rows.read(value);
      return parsed?.every((row) => row.length === parsed[0]!.length) ? parsed : undefined;
    },
    write: rows.write,
  };
}

function within(value: string, least: number, most: number): number | undefined {
  const parsed = Number(value);
  return value.trim() !== '' && parsed >= least && parsed <= most ? parsed : undefined;
}
