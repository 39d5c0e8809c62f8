/** The parameters of the core's encoder, read for the kernels, which take several of them as one matrix. */
import { concatenate } from '../io/files.js';
import type { Binding } from './webgpu.js';

/** Values of a parameter, and its shape; null if the model has none of that name. */
export type Parameter = { data: Float32Array; shape: number[] } | null;
export type Read = (name: string) => Parameter;

/** A matrix product's parameters. */
export interface Linear {
  weight: Binding;
  /** Factors of the weight's rows, if it is in fp16. */
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

/** The rows of several parameters, one after the other; null if there are none. */
export function stacked(parts: Parameter[]): Parameter {
  if (parts.some((part) => part === null)) return null;
  const rows = parts.reduce((sum, part) => sum + part!.shape[0]!, 0);
  const data = concatenate(
    Float32Array,
    parts.map((part) => part!.data),
  );
  return { data, shape: [rows, ...parts[0]!.shape.slice(1)] };
}

/** The weight [Q; K; V] of attention. */
export const projectionOf = (read: Read): Parameter =>
  read('self_attn.in_proj_weight') ?? stacked(['q', 'k', 'v'].map((of) => read(`self_attn.${of}_proj_weight`)));

/** DeBERTa: the weight and the bias [K; Q] for the embeddings of distances. */
export function distanceProjection(read: Read, width: number): [Parameter, Parameter] {
  const own = (part: string) => stacked(['key', 'query'].map((of) => read(`pos_${of}_proj.${part}`)));
  const rowsOf = (parameter: Parameter): Parameter => {
    if (!parameter) return null;
    const { data, shape } = parameter;
    const size = (data.length / shape[0]!) * width;
    const [q, k] = [0, 1].map((i) => ({
      data: data.subarray(i * size, (i + 1) * size),
      shape: [width, ...shape.slice(1)],
    }));
    return stacked([k!, q!]);
  };
  const weight = own('weight');
  return weight ? [weight, own('bias')] : [rowsOf(read('in_proj_weight')), rowsOf(read('in_proj_bias'))];
}
