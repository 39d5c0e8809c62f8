/** The core as layers and functions call it in heed/train: calls whose results need gradients are recorded, all others pass through. */
import type {
  Core,
  RawDecoderCallOptions,
  RawFunctionAttentionOptions,
  RawLayerAttentionOptions,
  RawModule,
  RawRotaryOptions,
  RawTensor,
} from '../core.js';
import { formatShape, invalid } from '../error.js';
import { passesOn } from '../module.js';
import type {
  RawEmbedding,
  RawGraph,
  RawIndices,
  RawVariable,
  RecordedDecoderOptions,
  RecordedLayerOptions,
  RecordedResults,
  TrainCore,
} from './core.js';
import type { ModuleState, Recording } from './scope.js';
import type { Tape } from './tape.js';

type Rotary = RawRotaryOptions | null;

/** Records a call of a layer; `rotary` is its option. */
// biome-ignore lint/suspicious/noExplicitAny: each takes the arguments of its layer's `forward` in the core
type Recorder = (call: Recording, raw: RawModule, rotary: Rotary, ...args: any[]) => unknown;

function layerOptions(
  call: Recording,
  options: RawLayerAttentionOptions,
  rotary: Rotary,
  keyMask = 'keyMask',
): RecordedLayerOptions {
  return {
    ...options,
    mask: call.mask('mask', options.mask),
    keyMask: call.mask(keyMask, options.keyMask),
    headMask: call.optional('headMask', options.headMask),
    rotary,
  };
}

function decoderOptions(
  call: Recording,
  options: RawDecoderCallOptions,
  rotary: Rotary,
  keyMask = 'keyMask',
  memoryKeyMask = 'memoryKeyMask',
): RecordedDecoderOptions {
  return {
    ...options,
    mask: call.mask('mask', options.mask),
    keyMask: call.mask(keyMask, options.keyMask),
    memoryMask: call.mask('memoryMask', options.memoryMask),
    memoryKeyMask: call.mask(memoryKeyMask, options.memoryKeyMask),
    rotary,
  };
}

/** The result of a layer with attention; `record` sets the weights in the object that it gets. */
function attended(call: Recording, record: (results: RecordedResults) => RawVariable) {
  const results: RecordedResults = { weights: null };
  const output = call.output(record(results));
  return { output, ...results };
}

function layerRecorders(core: TrainCore): Record<string, Recorder> {
  const tensorLayer =
    (record: (graph: RawGraph, layer: RawModule, x: RawVariable) => RawVariable): Recorder =>
    (call, raw, _, x: RawTensor) =>
      call.output(record(call.graph, raw, call.input('x', x)));
  const encoder =
    (record: TrainCore['recordEncoderLayer']): Recorder =>
    (call, raw, rotary, x: RawTensor, options: RawLayerAttentionOptions) =>
      attended(call, (results) =>
        record(call.graph, raw, call.input('x', x), layerOptions(call, options, rotary), results),
      );
  const decoder =
    (record: TrainCore['recordDecoderLayer']): Recorder =>
    (call, raw, rotary, target: RawTensor, memory: RawTensor, options: RawDecoderCallOptions) =>
      attended(call, (results) => {
        const [targets, memories] = [call.input('target', target), call.input('memory', memory)];
        return record(call.graph, raw, targets, memories, decoderOptions(call, options, rotary), results);
      });
  return {
    Embedding: (call, raw, _, ids: RawIndices) =>
      call.output(core.recordEmbeddingLayer(call.graph, raw as RawEmbedding, ids)),
    Linear: tensorLayer(core.recordLinearLayer),
    LayerNorm: tensorLayer(core.recordLayerNormLayer),
    BatchNorm: tensorLayer(core.recordBatchNormLayer),
    Dropout: tensorLayer(core.recordDropoutLayer),
    PositionalEncoding: tensorLayer(core.recordPositionalEncodingLayer),
    FeedForward: tensorLayer(core.recordFeedForwardLayer),
    MultiHeadAttention: (
      call,
      raw,
      rotary,
      query: RawTensor,
      key: RawTensor | null,
      value: RawTensor | null,
      options: RawLayerAttentionOptions & { averageWeights: boolean },
    ) =>
      attended(call, (results) =>
        core.recordMultiHeadAttentionLayer(
          call.graph,
          raw,
          call.input('query', query),
          call.optional('key', key),
          call.optional('value', value),
          { ...options, ...layerOptions(call, options, rotary) },
          results,
        ),
      ),
    EncoderLayer: encoder(core.recordEncoderLayerLayer),
    Encoder: encoder(core.recordEncoderLayer),
    DecoderLayer: decoder(core.recordDecoderLayerLayer),
    Decoder: decoder(core.recordDecoderLayer),
    Transformer: (
      call,
      raw,
      rotary,
      source: RawTensor,
      target: RawTensor,
      options: { source: RawLayerAttentionOptions; target: RawDecoderCallOptions },
    ) => {
      const memory = new core.Variable();
      const record = (results: RecordedResults) =>
        core.recordTransformerLayer(
          call.graph,
          raw,
          call.input('source', source),
          call.input('target', target),
          {
            source: layerOptions(call, options.source, null, 'sourceKeyMask'),
            target: decoderOptions(call, options.target, null, 'targetKeyMask', 'sourceKeyMask'),
            rotary,
          },
          memory,
          results,
        );
      let results: ReturnType<typeof attended>;
      try {
        results = attended(call, record);
      } catch (error) {
        memory.delete();
        throw error;
      }
      return { encoderWeights: null, ...results, memory: call.output(memory) };
    },
  };
}

/** Adds gradients [H, L, S] of a relative bias to those of its table [buckets, H], given the bucket of each query and key. */
function tableGradient(gradient: Float32Array, buckets: Float32Array, [rows, heads]: readonly number[]): RawTensor {
  const data = new Float32Array(rows! * heads!);
  gradient.forEach((value, i) => {
    const at = buckets[i % buckets.length]! * heads! + Math.floor(i / buckets.length);
    data[at] = data[at]! + value;
  });
  return { data, shape: [rows!, heads!] };
}

type Functions = Pick<Core, 'attention' | 'softmax' | 'linear' | 'layerNorm' | 'dropout' | 'rotary' | 'relativeBias'>;

type FunctionRecorders = {
  [K in keyof Functions]: (call: Recording, ...args: Parameters<Functions[K]>) => ReturnType<Functions[K]>;
};

function functionRecorders(core: TrainCore): FunctionRecorders {
  return {
    attention: (call, query, key, value, options: RawFunctionAttentionOptions) =>
      attended(call, (results) =>
        core.recordAttention(
          call.graph,
          call.input('query', query),
          call.input('key', key),
          call.input('value', value),
          { ...options, mask: call.mask('mask', options.mask) },
          results,
        ),
      ) as ReturnType<Core['attention']>,
    softmax: (call, x) => call.output(core.recordSoftmax(call.graph, call.input('x', x))),
    linear: (call, x, { weight, bias, activation }) =>
      call.output(
        core.recordLinear(
          call.graph,
          call.input('x', x),
          call.input('weight', weight, true),
          call.optional('bias', bias, true),
          activation,
        ),
      ),
    layerNorm: (call, x, { weight, bias, eps }) =>
      call.output(
        core.recordLayerNorm(
          call.graph,
          call.input('x', x),
          call.optional('weight', weight, true),
          call.optional('bias', bias, true),
          eps,
        ),
      ),
    dropout: (call, x, options) => call.output(core.recordDropout(call.graph, call.input('x', x), options)),
    rotary: (call, x, options) => call.output(core.recordRotary(call.graph, call.input('x', x), options)),
    relativeBias: (call, table, options) => {
      const rows = table.shape[0] ?? 0;
      const numbers = { data: Float32Array.from({ length: rows }, (_, i) => i), shape: [rows, 1] };
      const { data: buckets } = core.relativeBias(numbers, options);
      return call.external(core.relativeBias(table, options), [call.input('table', table)], (gradient) => [
        tableGradient(gradient, buckets, table.shape),
      ]);
    },
  };
}

/** `core` with a tape that records. */
export function recordingCore(core: TrainCore, tape: Tape): TrainCore {
  const recording: TrainCore = Object.create(core);
  passesOn(core, recording);
  for (const [name, record] of Object.entries(functionRecorders(core))) {
    const plain = core[name as keyof Functions] as (...args: unknown[]) => unknown;
    const call = record as (call: Recording, ...args: unknown[]) => unknown;
    Object.assign(recording, {
      [name]: (...args: unknown[]) =>
        tape.records(null, args) ? tape.record(null, (into) => call(into, ...args)) : plain(...args),
    });
  }
  for (const [name, record] of Object.entries(layerRecorders(core))) {
    const Raw = core[name as 'Linear'] as unknown as new (options: object) => RawModule;
    // biome-ignore lint/complexity/useArrowFunction: called with `new`
    const Tracked = function (options: { rotary?: Rotary }) {
      return trackedModule(tape, name, new Raw(options), (call, raw, args) =>
        record(call, raw, options.rotary ?? null, ...args),
      );
    };
    Object.assign(recording, { [name]: Tracked });
  }
  return recording;
}

/** Layers that relate rows to each other: [L, E] is one sequence for them. */
const relating = new Set(['PositionalEncoding', 'MultiHeadAttention', 'EncoderLayer', 'Encoder']);

/** Calls a layer for a part of a batch, so that dropout draws what it would draw in the whole batch. */
function inBatch<T>(tape: Tape, name: string, { shape }: { shape: readonly number[] }, call: () => T): T {
  if (!tape.part) return call();
  const { first, count } = tape.part;
  if (shape.length < 3 && relating.has(name))
    throw invalid(
      'fit.workers',
      'sequences, [N, L, E], as examples',
      `${formatShape(shape)} for ${name}`,
      'SHAPE_MISMATCH',
      {
        hint: 'Leave `workers` out',
      },
    );
  const positionOf = (axes: readonly number[]) => (axes.reduce((a, b) => a * b, 1) / count) * first;
  tape.core.setPosition(shape.length < 3 ? 0 : positionOf(shape.slice(0, -2)), positionOf(shape.slice(0, -1)));
  try {
    return call();
  } finally {
    tape.core.setPosition(0, 0);
  }
}

/** A layer's object that tells the tape what happens to it, and whose `forward` is recorded where it must. */
function trackedModule(
  tape: Tape,
  name: string,
  raw: RawModule,
  record: (call: Recording, raw: RawModule, args: unknown[]) => unknown,
): RawModule {
  const state = tracked(tape, name, raw);
  const { forward } = raw as RawModule & { forward(...args: unknown[]): unknown };
  return Object.assign(raw, {
    forward: (...args: unknown[]) =>
      tape.records(state, args)
        ? inBatch(tape, name, args[0] as RawTensor, () => tape.record(state, (call) => record(call, raw, args)))
        : forward.apply(raw, args),
  });
}

/** Makes an object of the core tell the tape what happens to it. */
export function tracked(tape: Tape, name: string, raw: RawModule): ModuleState {
  const state = tape.track(raw, name);
  const { setTraining, writeParameter, initialize, delete: free } = raw;
  Object.assign(raw, {
    setTraining(training: boolean) {
      state.training = training;
      setTraining.call(raw, training);
    },
    writeParameter(...args: Parameters<RawModule['writeParameter']>) {
      tape.requireIdle();
      state.version++;
      state.written = true;
      writeParameter.apply(raw, args);
    },
    initialize(seed: number) {
      state.version++;
      initialize.call(raw, seed);
    },
    delete: () => tape.release(state, () => free.call(raw)),
  });
  return state;
}
