/** Records the layers of one run. Notation: M total rows of all texts, E width, H heads. */
import type { SiteName } from '../base/sites.js';
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import type { Recorder, Recording } from './device.js';
import type { RunSites } from './gpu-sites.js';
import { add } from './kernels/add.js';
import { attention } from './kernels/attention.js';
import { type HeadsKernel, headGroups, heads } from './kernels/heads.js';
import { LINEAR_TILE, linear } from './kernels/linear.js';
import { norm } from './kernels/norm.js';
import { type PoolingName, pool } from './kernels/pool.js';
import type { ScoresKernel } from './kernels/scores.js';
import { scoreMatrices, weights } from './kernels/weights.js';
import { windows } from './kernels/windows.js';
import type { Layer, Parameters } from './layers.js';
import type { Linear, Norm } from './parameters.js';
import { type Binding, bound, free } from './webgpu.js';

/** A run's texts, as its kernels read them. */
export interface About {
  /** M */
  count: number;
  /** Per row: its text's first row, its text's length, and the offset of its text's attention weights. */
  rows: Binding;
  /** Per workgroup of attention: the text's first row, the text's length, and the first query. */
  tiles: Binding;
  /** Per text: its first row, its length, and the number of rows that poolings skip. */
  texts: Binding;
  /** Negative for rows that are masked as keys. */
  keyMask: Binding | null;
  /** The heads' factors, `padded` values per layer. */
  factors: { of: Binding; padded: number } | null;
  /** Cosines and sines for images with rotary positions, whose angles depend on the image. */
  turns: Binding | null;
  /** Number of attention weights of a layer: H * length^2, summed over the texts. */
  matrices: number;
  /** Sites that the run reads or edits. */
  sites: RunSites | null;
}

/** Values that are read back from a run, except those of its sites. */
export interface Results {
  /** Output rows of each layer except the last. */
  states: Map<number, Float32Array> | null;
  weights: Map<number, Float32Array> | null;
  /** Rows after the final norm; null if they are pooled. */
  last: Float32Array | null;
  pooled: Map<PoolingName, Float32Array>;
}

/** Computes a block's output for the rows `from`, adds `residual` if given, and stores the sum in the buffer `name`. */
type Block = (from: Binding, residual: Binding | null, name: string) => Recording<Binding>;

/** Records a matrix product. `out`: the output's binding, or the name of a scratch buffer for it. */
export function multiply(
  to: Recorder,
  { inputs, outputs, activation, gated, weight, scales, bias }: Linear,
  x: Binding,
  out: string | Binding,
  residual: Binding | null = null,
): Binding {
  const rows = x.size / 4 / inputs;
  const y = typeof out === 'string' ? to.scratch(out, (rows * outputs) / (gated ? 2 : 1)) : out;
  const code = linear({
    inputs,
    outputs,
    activation,
    gated,
    bias: bias !== null,
    residual: residual !== null,
    scales: scales !== null,
  });
  const bindings = bound([x, weight, y, bias, residual, scales]);
  to.dispatch(code, bindings, Math.ceil(outputs / LINEAR_TILE.columns), Math.ceil(rows / LINEAR_TILE.rows));
  return y;
}

export function normalize(
  to: Recorder,
  { eps, rmsNorm = false }: RawEncoderModelConfig,
  { weight, bias, width }: Norm,
  x: Binding,
  name: string,
  residual: Binding | null = null,
): Binding {
  const y = to.scratch(name, x.size / 4);
  const code = norm({ width, eps, rms: rmsNorm, bias: bias !== null, residual: residual !== null });
  to.dispatch(code, bound([x, weight, y, bias, residual]), x.size / 4 / width);
  return y;
}

export class Pass {
  readonly #to: Recorder;
  readonly #parameters: Parameters;
  readonly #about: About;
  readonly #results: Results;

  constructor(to: Recorder, parameters: Parameters, about: About, results: Results) {
    this.#to = to;
    this.#parameters = parameters;
    this.#about = about;
    this.#results = results;
  }

  /**
   * Records the layers from `first` on and the final norm. Then computes the poolings, or reads the rows if there are
   * none.
   */
  *run(embeddings: Binding, first: number, poolings: readonly PoolingName[]): Recording {
    const { config, convolution, finalNorm } = this.#parameters;
    const { numLayers, embedDim } = config;
    const { states, pooled } = this.#results;
    const { texts } = this.#about;
    const to = this.#to;
    let x = embeddings;
    for (let i = first; i < numLayers; i++) {
      if (i > 0) yield* this.#visit(i, 'input', x); // the WebAssembly module has visited that of layer 0
      x = yield* this.#runLayer(i, x);
      if (i === 0 && convolution) x = this.#convolve(convolution, x);
      yield* this.#visit(i, 'output', x);
      if (states && i < numLayers - 1) to.read(x, (rows) => void states.set(i, rows));
    }
    if (finalNorm) x = this.#normalize(finalNorm, x, free(x));
    yield* this.#visit(numLayers, 'output', x);
    const count = texts.size / 16;
    for (const mode of poolings) {
      const vectors = to.scratch('pooled', count * embedDim);
      to.dispatch(pool(mode, embedDim), [x, vectors, texts], Math.ceil(embedDim / 64), count);
      to.read(vectors, (values) => void pooled.set(mode, values));
    }
    if (poolings.length === 0) {
      to.read(x, (rows) => {
        this.#results.last = rows;
      });
    }
  }

  /** Reads and edits, in place, a site whose values are x. */
  *#visit(i: number, site: SiteName, x: Binding, heads = 1): Recording {
    const { sites, count } = this.#about;
    if (sites) yield* sites.visit(this.#to, i, x, [{ site, heads, begin: 0, width: x.size / 4 / count }]);
  }

  #normalize(by: Norm, x: Binding, name: string, residual: Binding | null = null): Binding {
    return normalize(this.#to, this.#parameters.config, by, x, name, residual);
  }

  /** Runs layer i on x, which is not modified. */
  *#runLayer(i: number, x: Binding): Recording<Binding> {
    const { config, layers } = this.#parameters;
    const layer = layers[config.sharedLayers ? 0 : i]!;
    const attend: Block = (from, residual, name) => this.#attentionBlock(i, layer, from, residual, name);
    const feed: Block = (from, residual, name) => this.#feedForward(i, layer, from, residual, name);
    let attended: Binding;
    if (layer.nestedNorm) {
      const sum = yield* this.#residual(i, 'attention', x, x, null, attend);
      const inner = this.#normalize(layer.nestedNorm, sum, free(x, sum), x);
      attended = this.#normalize(layer.norm1!, inner, free(x, inner));
    } else {
      attended = yield* this.#block(i, 'attention', x, layer.norm1, layer.outputNorm1, attend);
    }
    return yield* this.#block(i, 'feedForward', attended, layer.norm2, layer.outputNorm2, feed);
  }

  /** x plus the block's output, with the norm before the block or after the sum. */
  *#block(
    i: number,
    site: SiteName,
    x: Binding,
    own: Norm | null,
    ofOutput: Norm | null,
    run: Block,
  ): Recording<Binding> {
    const isFirst = this.#parameters.config.normFirst;
    const from = own && isFirst ? this.#normalize(own, x, free(x)) : x;
    const sum = yield* this.#residual(i, site, x, from, ofOutput, run);
    return own && !isFirst ? this.#normalize(own, sum, free(sum)) : sum;
  }

  /** x plus the block's output for `from`; the output is the values of `site`. */
  *#residual(
    i: number,
    site: SiteName,
    x: Binding,
    from: Binding,
    ofOutput: Norm | null,
    run: Block,
  ): Recording<Binding> {
    const isSeen = this.#about.sites?.touches(i, site) ?? false;
    if (!ofOutput && !isSeen) return yield* run(from, x, free(x, from)); // the last product adds x
    let output = yield* run(from, null, free(x, from));
    if (ofOutput) output = this.#normalize(ofOutput, output, free(x, output), isSeen ? null : x);
    if (!isSeen) return output;
    yield* this.#visit(i, site, output);
    const sum = this.#to.scratch(free(x, output), x.size / 4);
    const { embedDim } = this.#parameters.config;
    this.#to.dispatch(add(embedDim), [output, x, sum], this.#about.count);
    return sum;
  }

  *#feedForward(i: number, layer: Layer, from: Binding, residual: Binding | null, name: string): Recording<Binding> {
    const hidden = multiply(this.#to, layer.linear1, from, 'hidden');
    yield* this.#visit(i, 'hidden', hidden);
    return multiply(this.#to, layer.linear2, hidden, name, residual);
  }

  *#attentionBlock(i: number, layer: Layer, from: Binding, residual: Binding | null, name: string): Recording<Binding> {
    const { numHeads, keyValueHeads, headDim } = this.#parameters.config;
    const { sites } = this.#about;
    const projected = multiply(this.#to, layer.project, from, 'projected');
    this.#turn(i, layer, projected);
    if (sites) {
      const [width, keyWidth] = [numHeads * headDim, keyValueHeads * headDim];
      yield* sites.visit(this.#to, i, projected, [
        { site: 'queries', heads: numHeads, begin: 0, width },
        { site: 'keys', heads: keyValueHeads, begin: width, width: keyWidth },
        { site: 'values', heads: keyValueHeads, begin: width + keyWidth, width: keyWidth },
      ]);
    }
    const context = this.#attend(i, layer, projected);
    yield* this.#visit(i, 'heads', context, numHeads);
    return multiply(this.#to, layer.output, context, name, residual);
  }

  /** Normalizes and rotates the queries and keys in place. */
  #turn(i: number, { headNorm, project }: Layer, projected: Binding): void {
    const { config, turns: all } = this.#parameters;
    const { numHeads, keyValueHeads, headDim, eps, rmsNorm = false } = config;
    const { count, rows, turns: given } = this.#about;
    const turns = given ?? all?.[this.#isLocal(i) ? 'local' : 'all'] ?? null;
    if (!headNorm && !turns) return;
    const kernel: HeadsKernel = {
      heads: numHeads,
      keyHeads: keyValueHeads,
      headDim,
      stride: project.outputs,
      norm: headNorm && { eps, rms: rmsNorm, bias: headNorm.bias !== null, joint: config.jointQkNorm ?? false },
      rotaryDim: given ? headDim : turns ? (config.rotaryDim ?? 0) : 0,
    };
    const bindings = [projected, headNorm?.weight, headNorm?.bias, turns && rows, turns];
    this.#to.dispatch(heads(kernel), bound(bindings), headGroups(kernel), count);
  }

  #isLocal(i: number): boolean {
    const { window = -1, localLayers } = this.#parameters.config;
    return window >= 0 && (localLayers?.[i] ?? false);
  }

  #attend(i: number, layer: Layer, projected: Binding): Binding {
    const { config, bias, distanceRows } = this.#parameters;
    const { numHeads, keyValueHeads, headDim, maxPositions } = config;
    const { count, keyMask, factors, tiles, rows, matrices, sites } = this.#about;
    const to = this.#to;
    const kernel: ScoresKernel = {
      heads: numHeads,
      keyHeads: keyValueHeads,
      headDim,
      scale: config.attentionScale || 1 / Math.sqrt(headDim),
      window: this.#isLocal(i) ? config.window! : -1,
      causal: config.causal ?? false,
      keyMask: keyMask !== null,
      headMask: factors !== null,
      bias: bias?.most ?? null,
      distances: distanceRows ? maxPositions - 1 : null,
    };
    const bindings = (mask: Binding | null, ofHeads: Binding | null) =>
      bound([projected, mask, ofHeads, bias?.values, layer.distances, distanceRows]);
    const readMatrices = (code: string, mask: Binding | null, use: (values: Float32Array) => void) => {
      const all = to.scratch('matrices', matrices);
      to.dispatch(code, [all, rows, ...bindings(mask, null)], count, numHeads);
      to.read(all, use);
    };
    if (sites?.touches(i, 'scores'))
      readMatrices(scoreMatrices(kernel), null, (values) => sites.read(i, 'scores', values));
    const isSeen = sites?.touches(i, 'weights');
    const { weights: kept } = this.#results;
    if (kept || isSeen)
      readMatrices(weights(kernel), keyMask, (values) => {
        kept?.set(i, values);
        if (isSeen) sites?.read(i, 'weights', values);
      });
    const context = to.scratch('context', count * numHeads * headDim);
    const ofHeads = factors && {
      buffer: factors.of.buffer,
      offset: 4 * i * factors.padded,
      size: 4 * factors.padded,
    };
    to.dispatch(attention(kernel), [context, tiles, ...bindings(keyMask, ofHeads)], tiles.size / 16, numHeads);
    return context;
  }

  /** DeBERTa v2 XLarge: adds a convolution of the embeddings to the first layer's output. */
  #convolve({ product, norm }: NonNullable<Parameters['convolution']>, x: Binding): Binding {
    const { embedDim, convolution } = this.#parameters.config;
    const { count, rows } = this.#about;
    const gathered = this.#to.scratch('windows', count * embedDim * convolution!);
    const embeddings = this.#to.scratch('embeddings', count * embedDim);
    this.#to.dispatch(windows(embedDim, convolution!), [embeddings, gathered, rows], count);
    const sum = multiply(this.#to, product, gathered, free(x), x);
    return this.#normalize(norm, sum, free(sum));
  }
}
