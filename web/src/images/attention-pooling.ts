/**
 * SigLIP's attention pooling: y = x + MLP(LN(x)) with x = MHA(probe, rows, rows), where the probe is a learned query.
 */
import type {
  Core,
  RawAttended,
  RawEncoderModelConfig,
  RawLayer,
  RawModule,
  RawTensor,
  RawTensorLayer,
} from '../base/wasm/core.js';
import { filled, makeNorm } from '../models/heads/task-heads.js';

const CALL = {
  mask: null,
  causal: false,
  window: null,
  keyMask: null,
  headMask: null,
  returnWeights: false,
  averageWeights: false,
};

export class AttentionPooling {
  readonly #probe: RawTensor;
  readonly #attention: RawLayer<object, RawAttended>;
  readonly #mlp: RawTensorLayer[];

  /** `take` returns the tensor of a name and checks its shape. `own` registers a layer for deletion. */
  constructor(
    core: Core,
    vision: RawEncoderModelConfig,
    prefix: string,
    take: (name: string, shape: number[]) => RawTensor,
    own: <Layer extends RawModule>(layer: Layer) => Layer,
  ) {
    const { embedDim: width, numHeads, feedForwardDim, activation, eps } = vision;
    const named = (name: string, ...shape: number[]) => take(prefix + name, shape);
    this.#probe = { data: named('probe', width).data, shape: [1, width] };
    const attention = [
      named('attention.in_proj_weight', 3 * width, width),
      named('attention.in_proj_bias', 3 * width),
      named('attention.out_proj.weight', width, width),
      named('attention.out_proj.bias', width),
    ];
    const norm = {
      name: `${prefix}layernorm`,
      weight: named('layernorm.weight', width),
      bias: named('layernorm.bias', width),
    };
    const feedForward = [
      named('mlp.fc1.weight', feedForwardDim, width),
      named('mlp.fc1.bias', feedForwardDim),
      named('mlp.fc2.weight', width, feedForwardDim),
      named('mlp.fc2.bias', width),
    ];
    const sizes = { embedDim: width, dropout: 0, bias: true };
    const heads = {
      ...sizes,
      numHeads,
      keyDim: 0,
      valueDim: 0,
      keyInputDim: 0,
      valueInputDim: 0,
      activation: { query: 'identity', key: 'identity', value: 'identity' },
      rotary: null,
    };
    this.#attention = own(new core.MultiHeadAttention(heads));
    filled(this.#attention, attention);
    this.#mlp = [
      own(makeNorm(core, norm, eps)),
      filled(own(new core.FeedForward({ ...sizes, feedForwardDim, activation, gated: false })), feedForward),
    ];
  }

  /** Pools rows [L,E] to [1,E]. */
  forward(rows: RawTensor): RawTensor {
    const x = this.#attention.forward({ query: this.#probe, key: rows, value: rows, ...CALL }).output;
    const output = this.#mlp.reduce((y, layer) => layer.forward({ x: y }), x);
    return { data: output.data.map((value, i) => value + x.data[i]!), shape: x.shape };
  }
}
