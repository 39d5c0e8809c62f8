/** Shared by the functions of heed/lens: options, and checks of their text. */
import { invalid } from '../base/error.js';
import { callback, signal } from '../base/options.js';
import type { SignalLike } from '../base/platform.js';
import type { Tensor } from '../base/tensor.js';
import { countTexts, isTexts, type ModelInput, readInput } from '../models/index.js';

export interface LensOptions {
  /** Aborts the call, which then rejects with the signal's reason. */
  signal?: SignalLike | undefined;
  /** Called with the number of runs done so far and the total number of runs. */
  onProgress?: ((progress: { done: number; total: number }) => void) | undefined;
}

export const lensSchema = { signal, onProgress: callback<NonNullable<LensOptions['onProgress']>> };

/** Reads a single text or its token ids. */
export function oneText(given: unknown, name: string): ModelInput {
  const input = readInput(given);
  const count = countTexts(input);
  if (count !== 1) throw invalid(name, 'one text, or the token ids of one', `${count}`);
  return input;
}

/** Repeats a text `count` times. */
export function repeated(input: ModelInput, count: number): ModelInput {
  const all = <T>([one]: readonly T[]): T[] => new Array<T>(count).fill(one!);
  if (isTexts(input)) return all([input].flat());
  const { inputIds, attentionMask, tokenTypeIds } = input;
  return {
    inputIds: all(inputIds),
    ...(attentionMask && { attentionMask: all(attentionMask) }),
    ...(tokenTypeIds && { tokenTypeIds: all(tokenTypeIds) }),
  };
}

/** The part of a tensor that belongs to the first text. */
export const ofText = (tensor: Tensor, ...indices: number[]): Tensor => tensor.at<Tensor>(0, ...indices);
