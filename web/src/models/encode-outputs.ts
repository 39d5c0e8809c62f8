/**
 * Collects the tensors that `encode` returns from the pieces that the module runs. Notation: N texts, L tokens of the
 * longest text, E width, H heads.
 */
import { calling, floatsOf } from '../base/error.js';
import { padHeads, padWeights } from '../base/padding.js';
import type { SitePlan } from '../base/site-plan.js';
import { Tensor } from '../base/tensor.js';
import type { RawEncoderModelConfig, RawRows } from '../base/wasm/core.js';
import { outputWidth } from './families/family.js';
import type { Chain } from './heads/task-heads.js';
import { longest, type Row } from './input.js';
import type { EncodeResult } from './model.js';
import type { PieceHooks } from './run.js';

/** The requested outputs besides the last hidden state. */
interface Requested {
  outputAttentions: boolean;
  outputHiddenStates: boolean;
  outputProjections: boolean;
  read: string[] | null;
}

/** Adds the sites that a call must read to return the requested outputs. */
export function sitesOf<R extends Requested>(read: R): R & { also: string[]; showsLayers: boolean } {
  const also = read.outputProjections ? ['queries', 'keys', 'values'].map((site) => `layers.*.${site}`) : [];
  return { ...read, also, showsLayers: read.outputAttentions || read.outputHiddenStates };
}

export class EncodeOutputs {
  /** L */
  readonly #width: number;
  /** [N,L,E] */
  readonly #last: Float32Array;
  /** The input of each layer, [N,L,E]. */
  readonly #hidden: Float32Array[];
  /** The attention weights of each layer, [N,H,L,L]. */
  readonly #attentions: Float32Array[];

  constructor(
    readonly rows: Row[],
    readonly config: RawEncoderModelConfig,
    readonly requested: Requested,
  ) {
    const { numLayers, numHeads, embedDim } = config;
    const [count, width] = [rows.length, longest(rows)];
    const perLayer = (isRequested: boolean, shape: number[]) =>
      Array.from({ length: isRequested ? numLayers : 0 }, () => floatsOf('encode', shape));
    this.#width = width;
    this.#last = floatsOf('encode', [count, width, outputWidth(config)]);
    this.#hidden = perLayer(requested.outputHiddenStates, [count, width, embedDim]);
    this.#attentions = perLayer(requested.outputAttentions, [count, numHeads, width, width]);
  }

  /** Returns hooks that copy the requested outputs of a piece, whose first text is `first`. */
  hooksOf(piece: Row[], first: number): PieceHooks {
    const { numLayers, numHeads, embedDim } = this.config;
    const last = outputWidth(this.config);
    const { outputAttentions, outputHiddenStates } = this.requested;
    const width = this.#width;
    const copy = (encoding: RawRows, out: Float32Array, of: number) =>
      padHeads(encoding.hidden(), piece, width, 1, of, out.subarray(first * width * of));
    return {
      returnWeights: outputAttentions,
      returnStates: outputHiddenStates,
      onLayer: (layer, encoding, weights) => {
        if (weights) {
          const out = this.#attentions[layer]!.subarray(first * numHeads * width * width);
          padWeights(weights, piece, width, numHeads, out);
        }
        if (outputHiddenStates && layer < numLayers - 1) copy(encoding, this.#hidden[layer + 1]!, embedDim);
      },
      use: (encoding) => copy(encoding, this.#last, last),
    };
  }

  /** Returns the result after all pieces have run. */
  result(pooler: Chain | null, sites: SitePlan | null): EncodeResult {
    const { numLayers, numHeads } = this.config;
    const embedDim = outputWidth(this.config);
    const { outputAttentions, outputHiddenStates, outputProjections, read } = this.requested;
    const [count, width, last] = [this.rows.length, this.#width, this.#last];
    const shape = [count, width, embedDim];
    const mask = new Uint8Array(count * width);
    this.rows.forEach((row, n) => {
      for (const column of row.columns) mask[n * width + column] = 1;
    });
    const result: EncodeResult = {
      lastHiddenState: new Tensor(last, shape),
      ...listsOf(this.rows),
      attentionMask: new Tensor(mask, [count, width]),
    };
    if (pooler) {
      const data = floatsOf('encode', [count, embedDim]); // the first token of each text
      for (let n = 0; n < count; n++)
        data.set(last.subarray(n * width * embedDim, n * width * embedDim + embedDim), n * embedDim);
      const pooled = calling('encode', () => pooler.forward({ data, shape: [count, embedDim] }));
      result.poolerOutput = new Tensor(pooled.data, pooled.shape);
    }
    if (outputAttentions)
      result.attentions = this.#attentions.map((data) => new Tensor(data, [count, numHeads, width, width]));
    if (outputHiddenStates) {
      const states = this.#hidden.map((data) => new Tensor(data, [count, width, this.config.embedDim]));
      result.hiddenStates = numLayers > 0 ? [...states, new Tensor(last.slice(), shape)] : [];
    }
    if (outputProjections) {
      const of = (site: string) => Array.from({ length: numLayers }, (_, i) => sites!.tensor(`layers.${i}.${site}`));
      result.projections = { queries: of('queries'), keys: of('keys'), values: of('values') };
    }
    if (read) result.activations = sites!.activations();
    return result;
  }
}

/** The token lists that every result has. */
export function listsOf(rows: Row[]): Pick<EncodeResult, 'tokens' | 'offsets' | 'truncated'> {
  return {
    tokens: rows.map((row) => row.tokens),
    offsets: rows.map((row) => row.offsets),
    truncated: rows.map((row) => row.cut),
  };
}
