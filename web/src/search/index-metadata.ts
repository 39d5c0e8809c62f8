/** The values that a caller stores with the texts of an index. */
import { describe, guarded, invalid } from '../base/error.js';
import type { Reader } from '../base/options.js';
import type { IndexState } from './index-model.js';

/** Copies the values, as JSON would store them. */
export const metadataOption: Reader<unknown[]> = (value, name) => {
  if (!Array.isArray(value)) throw invalid(name, 'an array with a value per text', describe(value));
  return Array.from(value, (each, i) => {
    const json = guarded(`${name}[${i}]`, () => JSON.stringify(each));
    if (json === undefined) throw invalid(`${name}[${i}]`, 'a value that JSON can represent', describe(each));
    return JSON.parse(json) as unknown;
  });
};

/** The values of `count` new texts: null for each if an index has metadata and they have none. */
export function newMetadata(state: IndexState, given: unknown[] | null, count: number): unknown[] | null {
  if (given && given.length !== count) throw invalid('metadata', `${count}, one per text`, `${given.length}`);
  return given ?? (state.metadata ? new Array<unknown>(count).fill(null) : null);
}

/** Adds the values of new texts. Texts that were added without values before have null. */
export function addMetadata(state: IndexState, given: unknown[] | null): void {
  if (!given || given.length === 0) return;
  state.metadata ??= new Array<unknown>(state.texts.length).fill(null);
  for (const value of given) state.metadata.push(value);
}
