/**
 * Checkpoints: everything that a run needs to continue as if it had not been interrupted, in one safetensors file.
 *
 * Tensors `model.<name>` are parameters and buffers; `optimizer.<i>.<moment>` are the moments of the optimizer's i-th
 * parameter. The metadata has `format`, `version` and `state`: JSON with the kinds and counters of all parts, and the
 * seeds and counters of all dropouts.
 */
import { calling, describe, formatShape, HeedError, invalid } from '../../base/error.js';
import { requireIdle } from '../../base/in-progress.js';
import { legal, optional, readOptions } from '../../base/options.js';
import type { RawModule } from '../../base/wasm/core.js';
import { writeSafetensors } from '../../io/safetensors.js';
import { allLayers } from '../../layers/composition/composite.js';
import { Layer } from '../../layers/layer.js';
import { fitState } from '../../layers/state-dict.js';
import { type Parameter, parametersOf } from '../graph/parameters.js';
import type { Tape } from '../graph/tape.js';
import type { RawOptimizerState } from '../graph/train-core.js';
import type { Module } from '../module.js';
import { type Kind, kinds, Optimizer } from '../optim/optimizer.js';
import { Schedule } from '../optim/schedules.js';
import type { TrainableModel } from '../trainable/trainable-model.js';
import {
  broken,
  FORMAT,
  momentsOf,
  type OptimizerState,
  parse,
  readBytes,
  readMoments,
  type State,
  VERSION,
} from './checkpoint-state.js';

/** The parts of a run that a checkpoint contains. */
export interface CheckpointParts {
  /** A model, or a single layer. */
  model: Module | Layer | TrainableModel;
  /** The optimizer, with its moments. */
  optimizer?: Optimizer | undefined;
  /** The schedule of the learning rate. */
  schedule?: Schedule | undefined;
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

/** The state of an optimizer without its moments' values. `raw`: the states of its parameters, in order; none: no steps. */
function stateOf(optimizer: Optimizer, raw: readonly RawOptimizerState[] = []): OptimizerState {
  let next = 0;
  const groups = optimizer.paramGroups.map(({ lr, params }, i) => ({
    lr,
    settings: withoutRate(optimizer.settings[i]!),
    params: params.map(({ name, shape }) => {
      const { steps = 0, moments = [] } = raw[next++] ?? {};
      return { name, shape: [...shape], steps, moments: moments.map((moment) => moment.name) };
    }),
  }));
  return { kind: optimizer.kind, groups };
}

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
    const parameters = optimizer?.paramGroups.flatMap(({ params }) => params) ?? [];
    const states = parameters.map((_, i) => optimizer!.raw.state(i));
    for (const [i, { moments }] of states.entries()) {
      for (const { name, shape, values } of moments)
        tensors.push({ name: `optimizer.${i}.${name}`, dtype: 'F32', shape: [...shape], data: values });
    }
    const state: Omit<State, 'run'> & { run?: State['run'] | undefined } = {
      layers: layers.map(([layer, prefix]) => ({
        name: layer.name,
        prefix,
        dropout: tape.stateOf(layer.raw).dropoutState(),
      })),
      frozen: parametersOfAll(tape, layers)
        .filter(({ requiresGrad }) => !requiresGrad)
        .map(({ name }) => name),
      optimizer: optimizer && stateOf(optimizer, states),
      schedule: schedule && { kind: schedule.kind, options: schedule.options, ...schedule.position },
      ...(run && { run }),
    };
    return writeSafetensors(tensors, { format: FORMAT, version: VERSION, state: JSON.stringify(state) });
  });
}

function load(tape: Tape, given: Uint8Array | ArrayBuffer, parts: CheckpointParts): void {
  const name = 'loadCheckpoint';
  const { model, optimizer, schedule } = readOptions(name, partsSchema, parts) as PartsRead;
  tape.requireNoPass();
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
  if (optimizer) requireSame('optimizer', describeOptimizer(state.optimizer), describeOptimizer(stateOf(optimizer))!);
  if (schedule) {
    requireSame('schedule', describeSchedule(state.schedule), describeSchedule(schedule)!);
    const { rates, plateau } = schedule.position;
    if (!state.schedule!.plateau !== !plateau) throw broken('the state of the schedule', 'none');
    if (state.schedule!.rates.length !== rates.length)
      throw fault(`a schedule of ${rates.length} learning rates`, `${state.schedule!.rates.length}`);
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
    if (schedule) {
      const { count, rates, plateau } = state.schedule!;
      schedule.position = { count, rates, plateau };
    }
    // Done last, because the rates may have been set by hand after the schedule set them.
    for (const [i, group] of (optimizer?.paramGroups ?? []).entries()) group.lr = state.optimizer!.groups[i]!.lr;
  });
}

/** The properties in which two optimizers, or two schedules, must agree, as text. */
type Properties = { [part: string]: string };

function requireSame(what: string, theirs: Properties | null, ours: Properties): void {
  const argument = `loadCheckpoint.${what}`;
  if (!theirs) throw new HeedError('INVALID_ARGUMENT', `${argument}: the checkpoint has no ${what}`);
  for (const part of new Set([...Object.keys(ours), ...Object.keys(theirs)])) {
    if (ours[part] !== theirs[part])
      throw invalid(argument, `${part} ${theirs[part]}, as in the checkpoint`, `${ours[part]}`);
  }
}

/** The options of a group, with the defaults of those that a version of heed did not have when it saved them. */
function withDefaults(kind: string, options: object): object {
  if (!Object.hasOwn(kinds, kind)) return options;
  const defaults = Object.entries(kinds[kind as Kind].options as Record<string, readonly [unknown, unknown]>);
  return withoutRate({ ...Object.fromEntries(defaults.map(([name, [, value]]) => [name, value])), ...options });
}

/** Formats an object as JSON with sorted keys. */
function sorted(value: object): string {
  return JSON.stringify(Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1))));
}

function describeOptimizer(state: OptimizerState | null): Properties | null {
  if (!state) return null;
  const parts: Properties = { kind: state.kind };
  for (const [i, { settings: options, params }] of state.groups.entries()) {
    parts[`options of group ${i}`] = sorted(withDefaults(state.kind, options));
    parts[`parameters of group ${i}`] = params.map(({ name, shape }) => `${name} ${formatShape(shape)}`).join(', ');
    // A parameter that has never had a gradient has no moments.
    for (const { name, shape, moments } of params) {
      const kept = momentsOf(state.kind, options, shape)
        ?.map(([moment]) => moment)
        .join();
      if (kept !== undefined && moments.length > 0 && moments.join() !== kept)
        throw broken(`the moments ${kept || '(none)'} of '${name}'`, moments.join() || 'none');
    }
  }
  return parts;
}

function describeSchedule(schedule: { kind: string; options: object } | null): Properties | null {
  return schedule && { kind: schedule.kind, options: sorted(schedule.options) };
}
