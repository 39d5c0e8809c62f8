/** Reads the parameters of the WebAssembly module's encoder and joins those that the kernels multiply as one matrix. */

import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import { concatenate } from '../io/files.js';
import type { Binding } from './webgpu.js';

/** A parameter's values and shape, or null if the model has no parameter of that name. */
export type Parameter = { data: Float32Array; shape: number[] } | null;
export type Read = (name: string) => Parameter;

/** The parameters of a matrix product. */
export interface Linear {
  weight: Binding;
  /** Factors for the weight's rows if it is stored in fp16, otherwise null. */
  scales: Binding | null;
  bias: Binding | null;
  inputs: number;
  outputs: number;
  activation: string;
  gated: boolean;
}

export interface Norm {
  weight: Binding;
  bias: Binding | null;
  width: number;
}

/** Concatenates the rows of several parameters. Returns null if any of them is missing. */
export function stacked(parts: Parameter[]): Parameter {
  if (parts.some((part) => part === null)) return null;
  const rows = parts.reduce((sum, part) => sum + part!.shape[0]!, 0);
  const data = concatenate(
    Float32Array,
    parts.map((part) => part!.data),
  );
  return { data, shape: [rows, ...parts[0]!.shape.slice(1)] };
}

/** The joint projection weight [Q; K; V] of attention. */
export const projectionOf = (read: Read): Parameter =>
  read('self_attn.in_proj_weight') ?? stacked(['q', 'k', 'v'].map((of) => read(`self_attn.${of}_proj_weight`)));

/** DeBERTa: the weight and the bias [K; Q] that project the embeddings of distances. */
export function distanceProjection(
  read: Read,
  { embedDim: width, contentToPosition = true, positionToContent = true, positionProjections }: RawEncoderModelConfig,
): [Parameter, Parameter] {
  // The kernels compute both terms. Zeros take the place of the parameters of one that the model lacks.
  const zeros = (shape: number[]) => ({ data: new Float32Array(shape.reduce((a, b) => a * b, 1)), shape });
  const both = (key: Parameter, query: Parameter, shape: number[]) =>
    stacked([contentToPosition ? key : zeros(shape), positionToContent ? query : zeros(shape)]);
  const own = (part: string, shape: number[]) =>
    both(read(`pos_key_proj.${part}`), read(`pos_query_proj.${part}`), shape);
  const rowsOf = (parameter: Parameter): Parameter => {
    if (!parameter) return null;
    const { data, shape } = parameter;
    const size = (data.length / shape[0]!) * width;
    const [q, k] = [0, 1].map((i) => ({
      data: data.subarray(i * size, (i + 1) * size),
      shape: [width, ...shape.slice(1)],
    }));
    return both(k!, q!, k!.shape);
  };
  return positionProjections
    ? [own('weight', [width, width]), own('bias', [width])]
    : [rowsOf(read('in_proj_weight')), rowsOf(read('in_proj_bias'))];
}
