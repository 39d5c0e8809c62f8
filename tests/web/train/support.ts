/** Shared by the tests of training: builds, states drawn from seeds, calls of the API by names from fixtures. */
import type { Tensor, TrainingHeed } from 'heed/train';
import { relaxedSimd } from 'wasm-feature-detect';
import { draw, scaled } from '../layers/numbers.js';

/** Both builds if the engine supports them, because relaxed SIMD rounds differently. */
export const builds = (await relaxedSimd()) ? (['simd128', 'relaxed-simd'] as const) : (['simd128'] as const);

/** The values and shape of a tensor. */
export interface Values {
  data: Float32Array;
  shape: readonly number[];
}

export type Options = Record<string, unknown>;

/** How to draw the parameters of a layer; see tests/fixtures/training/record.py. */
export interface DrawnState {
  seed: number;
  scale: number;
}

export interface Differentiable {
  output: Tensor;
  backward(cotangent: Values): { inputs: Record<string, Tensor>; parameters: Record<string, Tensor> };
}

/** Any layer with any call. */
export interface AnyLayer {
  stateDict(): Record<string, Tensor>;
  loadStateDict(state: Record<string, Values>): unknown;
  train(): this;
  forward(...given: unknown[]): unknown;
  parameters(): Iterable<AnyParameter>;
  dispose(): void;
}

export interface AnyParameter {
  readonly name: string;
  readonly shape: readonly number[];
  readonly value: Tensor;
  readonly grad: Tensor | null;
  readonly requiresGrad: boolean;
}

export interface AnyLoss {
  item(): number;
  backward(): unknown;
}

export function makeLayer(heed: TrainingHeed, layer: string, options: Options = {}): AnyLayer {
  return new (heed as unknown as Record<string, new (o: Options) => AnyLayer>)[layer]!(options);
}

/** A method of the runtime or of one of its namespaces. */
export function call(owner: object, name: string, given: readonly unknown[]): unknown {
  return (owner as Record<string, (...given: unknown[]) => unknown>)[name]!(...given);
}

/** Whether a name is that of a moving average, which is in the state but not trained. */
const isBuffer = (name: string) => /(^|\.)running_(mean|var)$/.test(name);

/** The names of the parameters in the order of the fixtures. */
export const parameterNames = (layer: AnyLayer) =>
  Object.keys(layer.stateDict())
    .filter((name) => !isBuffer(name))
    .sort();

export function drawState(layer: AnyLayer, { seed, scale }: DrawnState): void {
  const state = layer.stateDict();
  const drawn = Object.keys(state)
    .sort()
    .map((name, i) => {
      const { shape } = state[name]!;
      const around = shape.length === 1 && /weight$|running_var$/.test(name) ? 1 : 0;
      return [name, scaled(draw((seed + i) % 2 ** 32, ...shape), scale, around)] as const;
    });
  layer.loadStateDict(Object.fromEntries(drawn));
}

/** Concatenates tensors. */
export function joined(tensors: readonly Values[]): Values {
  const data = Float32Array.from(tensors.flatMap((tensor) => [...tensor.data]));
  return { data, shape: [data.length] };
}

/** Nested arrays of 0, 1, 2, ... of a given shape. */
export function countedIds(shape: readonly number[]): unknown {
  let next = 0;
  const nest = ([extent, ...rest]: readonly number[]): unknown =>
    extent === undefined ? next++ : Array.from({ length: extent }, () => nest(rest));
  return nest(shape);
}

/** The gradients of all parameters, by name. */
export function gradients(layer: AnyLayer): Record<string, Tensor> {
  const found = [...layer.parameters()].map(({ name, grad }) => {
    if (grad === null) throw new Error(`${name} has no gradient`);
    return [name, grad] as const;
  });
  return Object.fromEntries(found);
}
