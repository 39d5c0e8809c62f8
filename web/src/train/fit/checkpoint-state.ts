/** The contents of checkpoint files: their format, and how they are read and checked. */
import { calling, describe, formatShape, guarded, HeedError, invalid } from '../../base/error.js';
import {
  count,
  finite,
  integer,
  legal,
  listOf,
  optional,
  type Read,
  type Reader,
  readOptions,
  text,
} from '../../base/options.js';
import type { TensorLike } from '../../base/tensor.js';
import { bytesOf } from '../../io/bytes.js';
import { headerEnd, metadataOf, parseHeader, tensorOf, widen } from '../../io/safetensors.js';
import type { RawOptimizerState } from '../graph/train-core.js';
import { type Kind, kinds } from '../optim/optimizer.js';

export const FILE = 'checkpoint';
export const FORMAT = 'heed-checkpoint';
export const VERSION = '1';

const steps: Reader<number> = (value, name) => integer(value, name, 0, Number.MAX_SAFE_INTEGER);
const word: Reader<number> = (value, name) => integer(value, name, 0, 2 ** 32 - 1);
const rate: Reader<number> = (value, name) => {
  if (finite(value, name) >= 0) return value as number;
  throw invalid(name, 'a number >= 0', describe(value));
};
/** Reads an object whose members are compared with those of another. */
const settings = legal<object>('an object', (value) => typeof value === 'object' && value !== null);

const object =
  <S extends Record<string, Reader<unknown>>>(schema: S): Reader<Read<S>> =>
  (value, name) =>
    readOptions(name, schema, value);

const run: Reader<Record<string, string>> = (value, name) => {
  const entries = Object.entries(settings(value, name));
  return Object.fromEntries(entries.map(([key, part]) => [key, text(part, `${name}.${key}`)]));
};

const stateSchema = {
  layers: listOf(object({ name: text, prefix: text, dropout: listOf(word, 'an array') }), 'an array'),
  frozen: listOf(text, 'an array'),
  optimizer: optional(
    object({
      kind: text,
      groups: listOf(
        object({
          lr: rate,
          settings,
          params: listOf(
            object({ name: text, shape: listOf(count, 'an array'), steps, moments: listOf(text, 'an array') }),
            'an array',
          ),
        }),
        'an array',
      ),
    }),
    null,
  ),
  schedule: optional(
    object({
      kind: text,
      options: settings,
      count: steps,
      rates: listOf(rate, 'an array'),
      plateau: optional(object({ best: optional(finite, null), bad: steps, waiting: steps }), null),
    }),
    null,
  ),
  run: optional(run, null),
};

export type State = Read<typeof stateSchema>;
export type OptimizerState = NonNullable<State['optimizer']>;

export function readBytes(argument: string, given: unknown): Uint8Array {
  return guarded(argument, () => {
    const bytes = bytesOf(given);
    if (bytes) return bytes;
    throw invalid(argument, 'a Uint8Array or an ArrayBuffer', describe(given));
  });
}

export function broken(expected: string, got: string, cause?: unknown): HeedError {
  return invalid(FILE, expected, got, 'INVALID_FILE', { cause });
}

/** Reads and checks the state in a file, and locates its tensors. */
function readState(bytes: Uint8Array) {
  const end = headerEnd(bytes, FILE, bytes.length);
  const json = bytes.subarray(8, end);
  const entries = parseHeader(json, FILE, bytes.length);
  const { format, version, state } = metadataOf(json, FILE);
  if (format !== FORMAT) throw broken('a file that saveCheckpoint made', `a file of the format ${describe(format)}`);
  if (version !== VERSION)
    throw invalid(FILE, `version ${VERSION} of the format`, `version ${describe(version)}`, 'UNSUPPORTED');
  try {
    return { state: readOptions(`${FILE}: state`, stateSchema, JSON.parse(String(state))) as State, entries, end };
  } catch (cause) {
    if (cause instanceof HeedError) throw new HeedError('INVALID_FILE', cause.message, { cause });
    throw broken('the state as JSON in the metadata', describe(state), cause);
  }
}

/** @internal The description of the training that `save` stored; null if there is none. */
export const runOf = (given: Uint8Array): Record<string, string> | null =>
  readState(readBytes('checkpoint', given)).state.run;

/** Reads and checks the contents of a file. The tensors have not yet been compared with a model. */
export function parse(bytes: Uint8Array): { state: State; tensors: Map<string, TensorLike> } {
  const { state, entries, end } = readState(bytes);
  const tensors = new Map<string, TensorLike>();
  for (const { name, dtype, shape, begin, end: last } of entries) {
    if (dtype !== 'F32') throw invalid(tensorOf(FILE, name), 'F32', dtype, 'INVALID_FILE');
    const part = bytes.subarray(end + begin, end + last);
    tensors.set(name, { data: calling(FILE, () => widen(part, 'F32')), shape });
  }
  return { state, tensors };
}

/** The states of the optimizer's parameters. Removes their moments from `tensors`. */
export function readMoments({ kind, groups }: OptimizerState, tensors: Map<string, TensorLike>): RawOptimizerState[] {
  return groups
    .flatMap(({ params, settings: options }) => params.map((parameter) => ({ ...parameter, options })))
    .map(({ shape: own, steps, moments, options }, i) => ({
      steps,
      moments: moments.map((name) => {
        const key = `optimizer.${i}.${name}`;
        const tensor = tensors.get(key);
        tensors.delete(key);
        const shape = momentsOf(kind, options, own)?.find(([moment]) => moment === name)?.[1] ?? own;
        if (!tensor || formatShape(tensor.shape) !== formatShape(shape))
          throw invalid(
            tensorOf(FILE, key),
            `F32 ${formatShape(shape)}`,
            tensor ? formatShape(tensor.shape) : 'none',
            'INVALID_FILE',
          );
        return { name, shape, values: tensor.data };
      }),
    }));
}

/** The moments of an optimizer with this name; null if there is none. */
export const momentsOf = (kind: string, options: object, shape: readonly number[]) =>
  Object.hasOwn(kinds, kind) ? kinds[kind as Kind].moments(options, shape) : null;
