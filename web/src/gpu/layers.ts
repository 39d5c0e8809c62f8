/** Uploads the parameters of a model's layers in the layout that the kernels expect. */
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import { concatenate } from '../io/files.js';
import type { Device } from './device.js';
import { alibiBias, bucketBias, distanceRows, rotaryTurns } from './gpu-positions.js';
import { halves } from './halves.js';
import { type Linear, type Norm, type Parameter, projectionOf, type Read } from './parameters.js';
import type { Binding } from './webgpu.js';

export interface Layer {
  project: Linear;
  output: Linear;
  linear1: Linear;
  linear2: Linear;
  norm1: Norm | null;
  norm2: Norm | null;
  nestedNorm: Norm | null;
  outputNorm1: Norm | null;
  outputNorm2: Norm | null;
  /** Norms of the queries' heads and of the keys' heads, concatenated. */
  headNorm: Norm | null;
  /** DeBERTa: embeddings of distances, projected as keys and queries [PK | PQ]. */
  distances: Binding | null;
}

/** A model's parameters on the GPU. */
export interface Parameters {
  config: RawEncoderModelConfig;
  layers: Layer[];
  finalNorm: Norm | null;
  convolution: { product: Linear; norm: Norm } | null;
  /**
   * Cosines and sines of rotary positions, for layers with global attention (`all`) and for those with local attention.
   */
  turns: { all: Binding; local: Binding } | null;
  bias: { values: Binding; most: number } | null;
  distanceRows: Binding | null;
}

export type Weights = 'fp32' | 'fp16';

/** Number of layers that have parameters of their own. */
export const numOwnLayers = ({ sharedLayers, numLayers }: RawEncoderModelConfig): number =>
  sharedLayers ? Math.min(1, numLayers) : numLayers;

export class Uploads {
  readonly #device: Device;
  readonly #config: RawEncoderModelConfig;
  readonly #read: Read;
  readonly #weights: Weights;

  /** `weights`: type in which the weights of matrix products are stored on the GPU. */
  constructor(device: Device, config: RawEncoderModelConfig, read: Read, weights: Weights) {
    this.#device = device;
    this.#config = config;
    this.#read = read;
    this.#weights = weights;
  }

  parameters(): Parameters {
    const config = this.#config;
    const { positions, maxPositions, numHeads, rotaryBase = 10_000, localRotaryBase = rotaryBase } = config;
    const { relativeBuckets = 0, relativeDistance = 128 } = config;
    const upload = (data: Float32Array | Uint32Array) => this.#device.upload(data);
    const isRotary = positions === 'rotary' && !config.patchSize;
    const { rotaryFrequencies: pairs, localRotaryFrequencies: localPairs } = config;
    const { rotaryFactor = 1, localRotaryFactor = 1 } = config;
    const all = isRotary ? upload(rotaryTurns(config, rotaryBase, pairs, rotaryFactor)) : null;
    const isShared =
      localRotaryBase === rotaryBase && String(pairs) === String(localPairs) && rotaryFactor === localRotaryFactor;
    const local = isShared ? all : all && upload(rotaryTurns(config, localRotaryBase, localPairs, localRotaryFactor));
    let bias: Parameters['bias'] = null;
    if (positions === 'alibi') {
      const most = maxPositions - 1;
      bias = { values: upload(alibiBias(numHeads, most)), most };
    } else if (positions === 'relative') {
      const most = relativeDistance + 1;
      const table = this.#read('relative_attention_bias.weight')!.data;
      bias = { values: upload(bucketBias(table, numHeads, relativeBuckets, relativeDistance, most)), most };
    }
    const isDisentangled = positions === 'disentangled' && relativeBuckets > 0;
    return {
      config,
      layers: Array.from({ length: numOwnLayers(config) }, (_, i) => this.#layer(`layers.${i}.`)),
      finalNorm: this.norm('norm.'),
      convolution: this.#convolution(),
      turns: all && { all, local: local! },
      bias,
      distanceRows: isDisentangled ? upload(distanceRows(relativeBuckets, relativeDistance, maxPositions - 1)) : null,
    };
  }

  /**
   * `scale`: factors for the rows of the weight and of the bias. `gated`: interleaves the rows of both halves, the
   * activated half first; cannot be combined with `scale`.
   */
  linear(weight: Parameter, bias: Parameter, activation = 'identity', gated = false, scale?: Float32Array): Linear {
    const [outputs, inputs] = [weight!.shape[0]!, weight!.data.length / weight!.shape[0]!];
    const arranged = (data: Float32Array) => {
      if (!gated) return data;
      const width = data.length / outputs;
      const out = new Float32Array(data.length);
      for (let row = 0; row < outputs; row++) {
        const second = row % 2 === (this.#config.gateSecond ? 0 : 1) ? outputs / 2 : 0;
        const from = second + (row >> 1);
        out.set(data.subarray(from * width, (from + 1) * width), row * width);
      }
      return out;
    };
    const scaled = (data: Float32Array) =>
      scale ? data.map((value, at) => value * scale[Math.floor(at / (data.length / outputs))]!) : data;
    const device = this.#device;
    const values = arranged(weight!.data);
    const half = this.#weights === 'fp16' ? halves(values, outputs) : null;
    return {
      weight: device.upload(half?.words ?? scaled(values)),
      scales: half && device.upload(scaled(half.scales)),
      bias: bias && device.upload(scaled(arranged(bias.data))),
      inputs,
      outputs,
      activation,
      gated,
    };
  }

  norm(name: string): Norm | null {
    const weight = this.#read(`${name}weight`);
    return weight && this.#makeNorm([weight], [this.#read(`${name}bias`)]);
  }

  #makeNorm(ofWeights: Parameter[], ofBiases: Parameter[]): Norm {
    const offset = this.#config.normWeightOffset ?? 0;
    const joined = (parts: Parameter[]) =>
      concatenate(
        Float32Array,
        parts.map((part) => part!.data),
      );
    const weight = this.#device.upload(joined(ofWeights).map((value) => value + offset));
    const bias = ofBiases.every((part) => part) ? this.#device.upload(joined(ofBiases)) : null;
    return { weight, bias, width: ofWeights[0]!.data.length };
  }

  #layer(name: string): Layer {
    const { activation, gated = false } = this.#config;
    const of = (part: string) => this.#read(name + part);
    const norm = (part: string) => this.norm(name + part);
    const scales = [1, 2].map((n) => of(`layer_scale${n}.weight`)?.data);
    const [queryNorm, keyNorm] = ['q', 'k'].map((part) => `self_attn.${part}_norm.`);
    return {
      project: this.linear(projectionOf(of), of('self_attn.in_proj_bias')),
      output: this.linear(of('self_attn.out_proj.weight'), of('self_attn.out_proj.bias'), 'identity', false, scales[0]),
      linear1: this.linear(of('linear1.weight'), of('linear1.bias'), activation, gated),
      linear2: this.linear(of('linear2.weight'), of('linear2.bias'), 'identity', false, scales[1]),
      norm1: norm('norm1.'),
      norm2: norm('norm2.'),
      nestedNorm: norm('nested_norm.'),
      outputNorm1: norm('output_norm1.'),
      outputNorm2: norm('output_norm2.'),
      headNorm: of(`${queryNorm}weight`)
        ? this.#makeNorm(
            [of(`${queryNorm}weight`), of(`${keyNorm}weight`)],
            [of(`${queryNorm}bias`), of(`${keyNorm}bias`)],
          )
        : null,
      distances: null,
    };
  }

  #convolution(): Parameters['convolution'] {
    const weight = this.#read('convolution.weight');
    if (!weight) return null;
    const product = this.linear(weight, this.#read('convolution.bias'), this.#config.convolutionActivation);
    return { product, norm: this.norm('convolution.norm.')! };
  }
}
