/**
 * Checkpoints: everything that a run needs to continue as if it had not been interrupted, in one safetensors file.
 *
 * Tensors `model.<name>` are parameters and buffers; `optimizer.<i>.<moment>` are the moments of the optimizer's i-th
 * parameter. The metadata has `format`, `version` and `state`: JSON with the kinds and counters of all parts, and the
 * seeds and counters of all dropouts.
 */
import { calling, describe, formatShape, guarded, HeedError, invalid } from '../../base/error.js';
import { requireIdle } from '../../base/in-progress.js';
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
import type { RawModule } from '../../base/wasm/core.js';
import { type Parameter, parametersOf } from '../graph/parameters.js';
import type { Tape } from '../graph/tape.js';
import type { RawOptimizerState } from '../graph/train-core.js';
import { allLayers } from '../graph/tree.js';
import {
  bytesOf,
  fitState,
  headerEnd,
  Layer,
  metadataOf,
  parseHeader,
  tensorOf,
  widen,
  writeSafetensors,
} from '../inference.js';
import type { Module } from '../module.js';
import { type Kind, kinds, Optimizer } from '../optim/optimizer.js';
import { Schedule } from '../optim/schedules.js';
import type { TrainableModel } from '../trainable/trainable-model.js';

/** The parts of a run that a checkpoint contains. */
export interface CheckpointParts {
  /** A model, or a single layer. */
  model: Module | Layer | TrainableModel;
  optimizer?: Optimizer;
  schedule?: Schedule;
}

/** Reading and writing checkpoints. */
export interface Checkpoints {
  /**
   * Returns the state of a run as the bytes of a safetensors file: parameters, buffers, which parameters are frozen,
   * seeds and counters of dropout, the optimizer's moments, steps and learning rates, and the schedule's position. Call
   * it between steps, because gradients are not saved.
   *
   * @example
   * const bytes = heed.saveCheckpoint({ model, optimizer, schedule });
   */
  saveCheckpoint(parts: CheckpointParts): Uint8Array<ArrayBuffer>;
  /**
   * Restores the checkpoint's state in parts that were made like those it was saved from. Training then continues as
   * without the interruption, bit for bit on the same build of the module. The optimizer and the schedule may be left
   * out. If it throws, nothing is changed.
   *
   * @example
   * const bytes = heed.saveCheckpoint({ model, optimizer });
   * heed.loadCheckpoint(bytes, { model, optimizer }); // made in the same way, in this process or a later one
   * @throws HeedError `INVALID_FILE` for bytes that are not a checkpoint; `INVALID_ARGUMENT` or `SHAPE_MISMATCH` for the checkpoint of another model, optimizer or schedule
   */
  loadCheckpoint(bytes: Uint8Array | ArrayBuffer, parts: CheckpointParts): void;
}

const FILE = 'checkpoint';
const FORMAT = 'heed-checkpoint';
const VERSION = '1';

type PartsRead = { model: Model; optimizer: Optimizer | null; schedule: Schedule | null };

/** A layer, or an object that lists its layers. */
type Model = Layer | { [allLayers](): [CheckpointLayer, string][] };

/** The members of a layer that checkpoints use. */
interface CheckpointLayer {
  readonly name: string;
  readonly raw: RawModule;
}

const instanceOf = <T>(expected: string, ...classes: (abstract new (...args: never[]) => T)[]) =>
  legal<T>(expected, (value) => classes.some((one) => value instanceof one));

const partsSchema = {
  model: legal<Model>('a model or a layer', (value) => value instanceof Layer || allLayers in value),
  optimizer: optional(instanceOf('an optimizer', Optimizer), null),
  schedule: optional(instanceOf('a schedule', Schedule), null),
};

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
  schedule: optional(object({ kind: text, options: settings, count: steps, rates: listOf(rate, 'an array') }), null),
  run: optional(run, null),
};

type State = Read<typeof stateSchema>;
type OptimizerState = NonNullable<State['optimizer']>;

/** The layers of a model, with the prefixes of their parameters' names. */
export function layersOf(model: Model): [CheckpointLayer, string][] {
  return model instanceof Layer ? [[model, '']] : model[allLayers]();
}

function parametersOfAll(tape: Tape, layers: readonly [CheckpointLayer, string][]): Parameter[] {
  return layers.flatMap(([layer, prefix]) => parametersOf(tape, layer, prefix));
}

/** Parameters and buffers of all layers. */
function listed(layers: readonly [CheckpointLayer, string][]) {
  return layers.flatMap(([{ raw }, prefix]) =>
    raw.parameters().map(({ name, shape }, index) => ({ raw, index, name: prefix + name, shape })),
  );
}

/** The options of a group that must be equal when a run continues: all except the learning rate. */
function withoutRate({ lr: _, ...rest }: { lr?: unknown }): object {
  return rest;
}

/** The states of an optimizer's parameters, in order. */
const statesOf = (optimizer: Optimizer): RawOptimizerState[] =>
  optimizer.paramGroups.flatMap(({ params }) => params).map((_, i) => optimizer.raw.state(i));

export function checkpointsOf(tape: Tape): Checkpoints {
  return {
    saveCheckpoint: (parts) => save(tape, parts),
    loadCheckpoint: (bytes, parts) => load(tape, bytes, parts),
  };
}

/** @internal Saves a checkpoint. `run`: a description of the training, which `runOf` returns. */
export function save(tape: Tape, given: CheckpointParts, run?: Readonly<Record<string, string>>) {
  const name = 'saveCheckpoint';
  const { model, optimizer, schedule } = readOptions(name, partsSchema, given) as PartsRead;
  return calling(name, () => {
    const layers = layersOf(model);
    const tensors = listed(layers).map(({ raw, index, name, shape }) => ({
      name: `model.${name}`,
      dtype: 'F32' as const,
      shape: [...shape],
      data: raw.readParameter(index),
    }));
    const states = optimizer ? statesOf(optimizer) : [];
    const shapes = optimizer?.paramGroups.flatMap(({ params }) => params).map(({ shape }) => [...shape]) ?? [];
    for (const [i, { moments }] of states.entries()) {
      for (const { name, values } of moments)
        tensors.push({ name: `optimizer.${i}.${name}`, dtype: 'F32', shape: shapes[i]!, data: values });
    }
    let next = 0;
    const state: Omit<State, 'run'> & { run?: State['run'] } = {
      layers: layers.map(([layer, prefix]) => ({
        name: layer.name,
        prefix,
        dropout: tape.stateOf(layer.raw).dropoutState(),
      })),
      frozen: parametersOfAll(tape, layers)
        .filter(({ requiresGrad }) => !requiresGrad)
        .map(({ name }) => name),
      optimizer: optimizer && {
        kind: optimizer.kind,
        groups: optimizer.paramGroups.map(({ lr, params }, group) => ({
          lr,
          settings: withoutRate(optimizer.settings[group]!),
          params: params.map(({ name, shape }) => {
            const { steps, moments } = states[next++]!;
            return { name, shape: [...shape], steps, moments: moments.map((moment) => moment.name) };
          }),
        })),
      },
      schedule: schedule && {
        kind: schedule.kind,
        options: schedule.options,
        count: schedule.count,
        rates: [...schedule.rates],
      },
      ...(run && { run }),
    };
    return writeSafetensors(tensors, { format: FORMAT, version: VERSION, state: JSON.stringify(state) });
  });
}

function load(tape: Tape, given: Uint8Array | ArrayBuffer, parts: CheckpointParts): void {
  const name = 'loadCheckpoint';
  const { model, optimizer, schedule } = readOptions(name, partsSchema, parts) as PartsRead;
  tape.requireIdle();
  const { state, tensors } = parse(readBytes(`${name}: bytes`, given));
  const layers = layersOf(model);
  requireIdle(
    name,
    layers.map(([{ raw }]) => raw),
  );
  const parameters = listed(layers);
  const fault = (expected: string, got: string) => invalid(name, expected, got);

  // Check everything first, so that a failed load changes nothing.
  const words = layers.map(([layer]) => calling(name, () => tape.stateOf(layer.raw).dropoutState()));
  const ours = layers.map(([layer, prefix]) => `${prefix}${layer.name}`).join(', ');
  const theirs = state.layers.map((layer) => `${layer.prefix}${layer.name}`).join(', ');
  if (ours !== theirs) throw fault(`the checkpoint of a model of these layers: ${ours}`, theirs || 'no layers');
  const trainable = parametersOfAll(tape, layers);
  const known = new Set(trainable.map((parameter) => parameter.name));
  const wrong = state.layers.findIndex(({ dropout }, i) => dropout.length !== words[i]!.length);
  if (wrong >= 0)
    throw broken(`the state of the dropout of ${ours.split(', ')[wrong]}`, `${state.layers[wrong]!.dropout}`);
  const unexpected = state.frozen.find((each) => !known.has(each));
  if (unexpected !== undefined) throw broken('frozen parameters of the model', describe(unexpected));
  const values = new Map([...tensors].filter(([key]) => key.startsWith('model.')));
  const writes = fitState(
    name,
    parameters,
    Object.fromEntries([...values].map(([key, tensor]) => [key.slice('model.'.length), tensor])),
  );
  for (const key of values.keys()) tensors.delete(key);
  const moments = state.optimizer && readMoments(state.optimizer, tensors);
  const [rest] = tensors.keys();
  if (rest !== undefined) throw broken('tensors of the model and of the optimizer', describe(rest));
  if (optimizer) requireSame('optimizer', describeOptimizer(state.optimizer), ownOptimizer(optimizer));
  if (schedule) {
    requireSame('schedule', describeSchedule(state.schedule), describeSchedule(schedule)!);
    if (state.schedule!.rates.length !== schedule.rates.length)
      throw fault(`a schedule of ${schedule.rates.length} learning rates`, `${state.schedule!.rates.length}`);
  }
  if (optimizer && schedule && schedule.optimizer !== optimizer)
    throw invalid(`${name}.schedule`, 'a schedule of `optimizer`', "another optimizer's schedule");

  calling(name, () => {
    // Done first, because it may run out of memory, in which case it changes nothing.
    if (optimizer) optimizer.raw.restore(moments!);
    for (const { index, firstRow, bytes } of writes) {
      const { raw, index: own } = parameters[index]!;
      raw.writeParameter(own, firstRow, bytes, 'F32', null);
    }
    for (const [i, [layer]] of layers.entries()) tape.stateOf(layer.raw).setDropoutState(state.layers[i]!.dropout);
    const frozen = new Set(state.frozen);
    for (const parameter of trainable) parameter.requiresGrad = !frozen.has(parameter.name);
    if (schedule) schedule.restore(state.schedule!.count, state.schedule!.rates);
    // Done last, because the rates may have been set by hand after the schedule set them.
    for (const [i, group] of (optimizer?.paramGroups ?? []).entries()) group.lr = state.optimizer!.groups[i]!.lr;
  });
}

function readBytes(argument: string, given: unknown): Uint8Array {
  return guarded(argument, () => {
    const bytes = bytesOf(given);
    if (bytes) return bytes;
    throw invalid(argument, 'a Uint8Array or an ArrayBuffer', describe(given));
  });
}

function broken(expected: string, got: string, cause?: unknown): HeedError {
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
function parse(bytes: Uint8Array): { state: State; tensors: Map<string, TensorLike> } {
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
function readMoments({ groups }: OptimizerState, tensors: Map<string, TensorLike>): RawOptimizerState[] {
  return groups
    .flatMap(({ params }) => params)
    .map(({ shape, steps, moments }, i) => ({
      steps,
      moments: moments.map((name) => {
        const key = `optimizer.${i}.${name}`;
        const tensor = tensors.get(key);
        tensors.delete(key);
        if (!tensor || formatShape(tensor.shape) !== formatShape(shape))
          throw invalid(
            tensorOf(FILE, key),
            `F32 ${formatShape(shape)}`,
            tensor ? formatShape(tensor.shape) : 'none',
            'INVALID_FILE',
          );
        return { name, values: tensor.data };
      }),
    }));
}

/** The properties in which two optimizers, or two schedules, must agree, as text. */
type Description = { [part: string]: string };

function requireSame(what: string, theirs: Description | null, ours: Description): void {
  const argument = `loadCheckpoint.${what}`;
  if (!theirs) throw new HeedError('INVALID_ARGUMENT', `${argument}: the checkpoint has no ${what}`);
  for (const part of new Set([...Object.keys(ours), ...Object.keys(theirs)])) {
    if (ours[part] !== theirs[part])
      throw invalid(argument, `${part} ${theirs[part]}, as in the checkpoint`, `${ours[part]}`);
  }
}

/** Formats an object as JSON with sorted keys. */
function sorted(value: object): string {
  return JSON.stringify(Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))));
}

function describeOptimizer(state: OptimizerState | null): Description | null {
  if (!state) return null;
  const parts: Description = { kind: state.kind };
  for (const [i, { settings: options, params }] of state.groups.entries()) {
    parts[`options of group ${i}`] = sorted(options);
    parts[`parameters of group ${i}`] = params.map(({ name, shape }) => `${name} ${formatShape(shape)}`).join(', ');
    // A parameter that has never had a gradient has no moments.
    const kept = Object.hasOwn(kinds, state.kind) ? kinds[state.kind as Kind].moments(options).join() : null;
    const odd = params.find(({ moments }) => kept !== null && moments.length > 0 && moments.join() !== kept);
    if (odd) throw broken(`the moments ${kept || '(none)'} of '${odd.name}'`, odd.moments.join() || 'none');
  }
  return parts;
}

function ownOptimizer(optimizer: Optimizer): Description {
  const groups = optimizer.paramGroups.map(({ lr, params }, i) => ({
    lr,
    settings: withoutRate(optimizer.settings[i]!),
    params: params.map(({ name, shape }) => ({ name, shape: [...shape], steps: 0, moments: [] as string[] })),
  }));
  return describeOptimizer({ kind: optimizer.kind satisfies Kind, groups })!;
}

function describeSchedule(schedule: { kind: string; options: object } | null): Description | null {
  return schedule && { kind: schedule.kind, options: sorted(schedule.options) };
}
