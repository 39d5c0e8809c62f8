/** Recurrent layers: `LSTM` and `GRU`. */
import { flag, layerCount, optional, type Read, type Schema, seed, size } from '../base/options.js';
import type { Tensor, TensorInput } from '../base/tensor.js';
import type { RawTensorLayer } from '../base/wasm/core.js';
import { linearFlops, type Pass } from './cost.js';
import { run, toTensor } from './functions.js';
import { Layer, type LayerOptions } from './layer.js';

/** Options of `LSTM` and `GRU`. */
export interface RecurrentOptions extends LayerOptions {
  /** I, the width of the input. */
  inputSize: number;
  /** H, the width of the hidden state. */
  hiddenSize: number;
  /** The number of stacked layers, from 1 to 1024. A layer reads the outputs of the one below. Default 1. */
  numLayers?: number | undefined;
  /** Whether the gates have biases: two, as in PyTorch. Default true. */
  bias?: boolean | undefined;
  /** Whether a second direction reads each sequence from its end. Default false. */
  bidirectional?: boolean | undefined;
}

const schema = {
  inputSize: size,
  hiddenSize: size,
  numLayers: optional(layerCount, 1),
  bias: optional(flag, true),
  bidirectional: optional(flag, false),
  seed,
} satisfies Schema<RecurrentOptions>;

/** What `LSTM` and `GRU` have in common. */
abstract class Recurrent extends Layer<RawTensorLayer> {
  /** @internal */
  static readonly relatesRows = true;

  /** @internal */
  declare protected readonly options: Read<typeof schema>;

  /** @internal */
  static readonly schema = schema;

  /**
   * x [N, L, I] or [L, I] -> `output` [N, L, D H] or [L, D H], with D directions: the hidden state at each position, of
   * the forward direction first. The states before the first position are zeros.
   *
   * @throws HeedError `SHAPE_MISMATCH` if the shape of `x` does not match
   */
  forward(x: TensorInput): { output: Tensor };
  forward(x: TensorInput, options?: object): { output: Tensor } {
    const { raw } = this;
    return run(`${this.name}.forward`, { x }, {}, options, ([input]) => ({
      output: toTensor(raw.forward({ x: input! })),
    }));
  }

  /** @internal */
  protected override countFlops({ length }: Pass): number {
    const { inputSize, hiddenSize, numLayers, bidirectional } = this.options;
    const directions = bidirectional ? 2 : 1;
    const inputs = inputSize + (numLayers - 1) * directions * hiddenSize;
    const gates = this.name === 'LSTM' ? 4 : 3;
    return directions * linearFlops(length, inputs + numLayers * hiddenSize, gates * hiddenSize);
  }
}

/**
 * Long short-term memory (Hochreiter, Schmidhuber 1997): `torch.nn.LSTM` with `batch_first`. With the gates i, f, o =
 * sigmoid(W_ih x + b_ih + W_hh h + b_hh) and g = tanh(...): c <- f c + i g, h <- o tanh(c).
 *
 * Parameters of layer l: `weight_ih_l{l}` [4H, I] (above the first layer [4H, D H]), `weight_hh_l{l}` [4H, H],
 * `bias_ih_l{l}`, `bias_hh_l{l}` [4H], with the gates in the order i, f, g, o; those of the second direction end in
 * `_reverse`.
 *
 * @example
 * const lstm = new heed.LSTM({ inputSize: 3, hiddenSize: 8 });
 * lstm.forward([[1, 0, 0], [0, 1, 0]]).output.shape; // [2, 8]
 */
export class LSTM extends Recurrent {}

/**
 * Gated recurrent unit (Cho et al. 2014, arXiv:1406.1078): `torch.nn.GRU` with `batch_first`. With r, z =
 * sigmoid(W_ih x + b_ih + W_hh h + b_hh) and n = tanh(W_ih x + b_ih + r (W_hh h + b_hh)): h <- (1 - z) n + z h.
 *
 * Parameters as in `LSTM`, with 3H rows and the gates in the order r, z, n.
 *
 * @example
 * const gru = new heed.GRU({ inputSize: 3, hiddenSize: 8, bidirectional: true });
 * gru.forward([[1, 0, 0], [0, 1, 0]]).output.shape; // [2, 16]
 */
export class GRU extends Recurrent {}
