/** The tiny model's folder, and the vectors that folders give, for tests of their settings. */
import { load } from 'heed';
import { tinyModel } from './tiny.js';

export const heed = await load();
export const json = (value: unknown) => JSON.stringify(value);
export const parsed = (file: Uint8Array | string | undefined) =>
  JSON.parse(typeof file === 'string' ? file : new TextDecoder().decode(file)) as Record<string, unknown>;
export type Files = Record<string, Uint8Array | string>;
export const texts = ['the quick fox', 'a, x. y z', 'brown foxes'];

export async function vectorsOf(files: Files): Promise<number[][]> {
  using model = await heed.fromPretrained(files);
  return (await model.embed(texts)).toArray() as number[][];
}

export const tiny = tinyModel();
