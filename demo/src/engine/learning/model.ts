/**
 * A small transformer, composed so that the parts whose effect the lectures explain can be left out.
 *
 * Notation: N sequences, L tokens, E width, H heads, D = E / H.
 */
import type { Dropout, LayerNorm, Linear, Module, Parameter, Tensor, TrainingHeed } from 'heed/train';

export interface ModelSettings {
  heads: number;
  /** E */
  width: number;
  /** Add the positional encoding to the embeddings. */
  positions: boolean;
  /** Multiply the scores by 1 / sqrt(D). */
  scale: boolean;
  /** Normalize after each block, as in the paper. */
  layerNorm: boolean;
  /** Probability of dropping an entry of a block's result, in training. */
  dropout: number;
}

export interface ModelShape {
  symbols: number;
  length: number;
  causal: boolean;
}

export interface Forward {
  /** [N, L, symbols] */
  logits: Tensor;
  /** Per layer and head: [N, L, L]; empty unless asked for. */
  weights: Tensor[][];
}

export interface ForwardOptions {
  /** Default false. */
  withWeights?: boolean;
  /** Heads whose results are zeros, as "layer.head". */
  off?: readonly string[];
}

export interface Transformer extends Module {
  forward(ids: number[][], options?: ForwardOptions): Forward;
}

export const layerCount = 2;

/** Makes the model with initial values drawn from `seed`. */
export function makeModel(heed: TrainingHeed, settings: ModelSettings, shape: ModelShape, seed: number): Transformer {
  const { heads, width, dropout } = settings;
  const headWidth = width / heads;
  const positions = heed.positionalEncoding(shape.length, width);
  let made = 0;
  const nextSeed = () => 1000 * seed + ++made;
  const linear = (inFeatures: number, outFeatures: number, activation: 'identity' | 'relu' = 'identity') =>
    new heed.Linear({ inFeatures, outFeatures, activation, seed: nextSeed() });

  /** The result of a block, added to its input: LayerNorm(x + Dropout(block(x))). */
  class Residual extends heed.Module {
    norm: LayerNorm[] = settings.layerNorm ? [new heed.LayerNorm({ normalizedShape: width })] : [];
    dropout: Dropout[] = dropout > 0 ? [new heed.Dropout({ p: dropout, seed: nextSeed() })] : [];
    forward(x: Tensor, result: Tensor): Tensor {
      const sum = heed.add(x, this.dropout[0]?.forward(result) ?? result);
      return this.norm[0]?.forward(sum) ?? sum;
    }
  }

  class Layer extends heed.Module {
    query = linear(width, width);
    key = linear(width, width);
    value = linear(width, width);
    output = linear(width, width);
    up = linear(width, 2 * width, 'relu');
    down: Linear = linear(2 * width, width);
    afterAttention = new Residual();
    afterFeedForward = new Residual();

    /** `off`: heads of this layer whose results are zeros. */
    forward(x: Tensor, returnWeights: boolean, off: readonly number[]): { output: Tensor; weights: Tensor[] } {
      const [query, key, value] = [this.query, this.key, this.value].map((layer) => layer.forward(x)) as Three;
      const attended = Array.from({ length: heads }, (_, head) => {
        const columns = { axis: -1, start: head * headWidth, end: (head + 1) * headWidth };
        const [q, k, v] = [query, key, value].map((all) => (heads > 1 ? heed.slice(all, columns) : all)) as Three;
        const scale = settings.scale ? 1 / Math.sqrt(headWidth) : 1;
        return heed.attention(q, k, v, { scale, causal: shape.causal, returnWeights });
      });
      const outputs = attended.map(({ output }, head) => (off.includes(head) ? heed.multiply(output, 0) : output));
      const joined = heads > 1 ? heed.concatenate(outputs) : outputs[0]!;
      const mixed = this.afterAttention.forward(x, this.output.forward(joined));
      return {
        output: this.afterFeedForward.forward(mixed, this.down.forward(this.up.forward(mixed))),
        weights: attended.flatMap(({ weights }) => weights ?? []),
      };
    }
  }

  class Model extends heed.Module {
    embedding = new heed.Embedding({ numEmbeddings: shape.symbols, embedDim: width, seed: nextSeed() });
    layers = Array.from({ length: layerCount }, () => new Layer());
    head = linear(width, shape.symbols);

    forward(ids: number[][], { withWeights = false, off = [] }: ForwardOptions = {}): Forward {
      const embedded = this.embedding.forward(ids);
      let x = settings.positions ? heed.add(embedded, positions) : embedded;
      const weights: Tensor[][] = [];
      const headsOff = off.map((name) => name.split('.').map(Number));
      for (const [i, layer] of this.layers.entries()) {
        const own = headsOff.filter(([of]) => of === i).map(([, head]) => head!);
        const result = layer.forward(x, withWeights, own);
        x = result.output;
        weights.push(result.weights);
      }
      return { logits: this.head.forward(x), weights: withWeights ? weights : [] };
    }
  }
  return new Model();
}

type Three = [Tensor, Tensor, Tensor];

/** The Euclidean norm of each matrix's gradient, after a backward pass. */
export function gradientNorms(model: Module): { name: string; norm: number }[] {
  return model
    .parameters()
    .filter(({ shape }) => shape.length === 2)
    .map((parameter) => ({ name: parameter.name.replace(/\.weight$/, ''), norm: normOf(parameter) }));
}

function normOf({ grad }: Parameter): number {
  return Math.sqrt(grad?.data.reduce((sum, entry) => sum + entry * entry, 0) ?? 0);
}
