/** Conversions between values and their text in the URL. */
import type { Codec } from './url';

/** Text that is not blank. */
export const word: Codec<string> = { read: (value) => (value.trim() ? value : undefined), write: (value) => value };

export const text: Codec<string> = { read: (value) => value, write: (value) => value };

export const flag: Codec<boolean> = { read: (value) => value === '1', write: (value) => (value ? '1' : '0') };

export function choice<T extends string>(...options: readonly T[]): Codec<T> {
  return { read: (value) => options.find((option) => option === value), write: (value) => value };
}

export function number(min: number, max: number): Codec<number> {
  return { read: (value) => within(value, min, max), write: String };
}

export function integer(min: number, max: number): Codec<number> {
  return {
    read: (value) => {
      const parsed = within(value, min, max);
      return Number.isInteger(parsed) ? parsed : undefined;
    },
    write: String,
  };
}

/** Writes `null` as the empty string. */
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

/** A matrix as text, for example `1,0;0,1`. */
export function matrix(min = -1000, max = 1000): Codec<number[][]> {
  const rows = list(list(number(min, max)), ';');
  return {
    read: (value) => {
      const parsed = rows.read(value);
      return parsed?.every((row) => row.length > 0 && row.length === parsed[0]!.length) ? parsed : undefined;
    },
    write: rows.write,
  };
}

function within(value: string, min: number, max: number): number | undefined {
  const parsed = Number(value);
  return value.trim() !== '' && parsed >= min && parsed <= max ? parsed : undefined;
}

export interface HeadPlace {
  layer: number;
  head: number;
}

/** A head, counted from 0; in links as “layer.head”, counted from 1 as on the page. */
export const headPlace: Codec<HeadPlace> = {
  read: (value) => {
    const [, layer, head] = /^([1-9]\d?)\.([1-9]\d?)$/.exec(value) ?? [];
    return head === undefined ? undefined : { layer: Number(layer) - 1, head: Number(head) - 1 };
  },
  write: ({ layer, head }) => `${layer + 1}.${head + 1}`,
};
