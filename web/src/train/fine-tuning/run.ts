/** Checks that a training that continues from a checkpoint agrees with the one that wrote it. */
import { describe, invalid } from '../../base/error.js';
import { fnvOfText } from '../../base/fnv.js';
import { runOf } from '../fit/checkpoint-state.js';
import { type EncoderTraining, isLora } from './encoder.js';

/** The settings and data of a training, by their names in messages. */
export type Run = Readonly<Record<string, string>>;

/** The hash of the JSON text of a list, which may be longer than the longest string. */
function hashOf(list: readonly unknown[]): string {
  let hash = fnvOfText('[');
  for (const [i, entry] of list.entries()) hash = fnvOfText((i > 0 ? ',' : '') + JSON.stringify(entry), hash);
  return (fnvOfText(']', hash) >>> 0).toString(16).padStart(8, '0');
}

/**
 * Describes a training. `settings`: the options that affect the result. `examples`: the examples for training, in
 * order.
 */
export function describeRun(
  settings: Readonly<Record<string, unknown>>,
  train: EncoderTraining,
  examples: readonly unknown[],
): Run {
  const shown = Object.entries(settings).map(([name, value]) => [name, JSON.stringify(value)]);
  // Trained parameters are compared by name and shape, which do not include the factors of LoRA adapters.
  const { alpha = 8, dropout = 0 } = isLora(train) ? train.lora : {};
  return {
    ...Object.fromEntries(shown),
    ...(isLora(train) && { alpha: String(alpha), dropout: String(dropout) }),
    examples: `${examples.length} (hash ${hashOf(examples)})`,
  };
}

/** @throws HeedError `INVALID_ARGUMENT` for a checkpoint of another run; the message lists the differences */
export function requireSameRun(call: string, bytes: Uint8Array, run: Run): void {
  const other = runOf(bytes);
  if (!other) return; // written by saveCheckpoint, or before runs were described
  const differing = [...new Set([...Object.keys(run), ...Object.keys(other)])].filter(
    (name) => run[name] !== other[name],
  );
  if (differing.length === 0) return;
  const list = (of: Run) => differing.map((name) => `${name} ${of[name] ?? 'none'}`).join(', ');
  const expected = `a checkpoint of the same training (${list(run)})`;
  const hint = 'Give the same examples and options as before, or leave `resume` out';
  throw invalid(`${call}.resume`, expected, `a checkpoint with ${list(other)}`, 'INVALID_ARGUMENT', { hint });
}

/** The options with the checkpoint's seed, unless a seed was given. */
export function withSeed<T extends { readonly seed: number; readonly resume: Uint8Array | null }>(
  call: string,
  read: T,
  given: { readonly seed?: number | undefined } | undefined,
): T {
  const run = read.resume && runOf(read.resume);
  if (!run || given?.seed !== undefined) return read;
  const seed = Number(run.seed);
  if (Number.isSafeInteger(seed) && seed >= 0) return { ...read, seed };
  throw invalid(`${call}.resume`, 'a checkpoint with a seed', describe(run.seed), 'INVALID_FILE');
}
