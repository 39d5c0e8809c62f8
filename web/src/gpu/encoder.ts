/**
 * The layers of an encoder on a GPU: the same description and the same parameters as the core's `EncoderModel`, in fp32. The core embeds the tokens or the patches, so that the
 * tables of words, which may be larger than a GPU's buffers, stay where they are.
 * Notation: M rows of all texts together, E width, H heads.
 */
import type { RawEncoderModel, RawEncoderModelConfig, RawEncoding } from '../core.js';
import { calling, HeedError } from '../error.js';
import { concatenate } from '../io/files.js';
import type { DeviceBatch, DeviceLayers, PieceHooks } from '../models/run.js';
import type { Device, Recorder } from './device.js';
import { attention, QUERIES } from './kernels/attention.js';
import { type HeadsKernel, headGroups, heads } from './kernels/heads.js';
import { LINEAR_TILE, linear } from './kernels/linear.js';
import { norm } from './kernels/norm.js';
import { pool } from './kernels/pool.js';
import type { ScoresKernel } from './kernels/scores.js';
import { weights } from './kernels/weights.js';
import { windows } from './kernels/windows.js';
import { distanceProjection, type Linear, type Norm, type Parameter, projectionOf, type Read } from './parameters.js';
import { alibiBias, bucketBias, distanceRows, givenTurns, rotaryTurns } from './positions.js';
import { type Binding, bound, free } from './webgpu.js';

interface Layer {
  project: Linear;
  output: Linear;
  linear1: Linear;
  linear2: Linear;
  norm1: Norm | null;
  norm2: Norm | null;
  nestedNorm: Norm | null;
  outputNorm1: Norm | null;
  outputNorm2: Norm | null;
  /** Of queries, then of keys. */
  headNorm: Norm | null;
  /** DeBERTa: [PK | PQ]. */
  distances: Binding | null;
}

/** What the kernels of a run know of its texts. */
interface About {
  /** M */
  count: number;
  /** For each row: the first row of its text, the text's length, and where its attention weights begin. */
  rows: Binding;
  /** For each workgroup of attention: the text's first row and length, and the first query. */
  tiles: Binding;
  /** For each text: its first row and length, and the number of rows that poolings skip. */
  texts: Binding;
  /** Negative for rows that are no keys. */
  keyMask: Binding | null;
  /** Factors of the heads, `padded` for each layer. */
  factors: { of: Binding; padded: number } | null;
  /** Of images with rotary positions. */
  turns: Binding | null;
}

export class GpuEncoder implements DeviceLayers {
  readonly #device: Device;
  readonly #config: RawEncoderModelConfig;
  readonly #layers: Layer[] = [];
  readonly #finalNorm: Norm | null;
  readonly #convolution: { product: Linear; norm: Norm } | null;
  /** Of rotary positions: of layers with global attention, and of local ones. */
  readonly #turns: { all: Binding; local: Binding } | null;
  readonly #bias: { values: Binding; most: number } | null;
  readonly #distanceRows: Binding | null;

  private constructor(device: Device, config: RawEncoderModelConfig, read: Read) {
    this.#device = device;
    this.#config = config;
    const count = config.sharedLayers ? Math.min(1, config.numLayers) : config.numLayers;
    for (let i = 0; i < count; i++) this.#layers.push(this.#layer(`layers.${i}.`, read));
    this.#finalNorm = this.#norm(read, 'norm.');
    this.#convolution = this.#readConvolution(read);
    const { positions, maxPositions, numHeads, rotaryBase = 10_000, localRotaryBase = rotaryBase } = config;
    const isRotary = positions === 'rotary' && !config.patchSize;
    const all = isRotary ? device.upload(rotaryTurns(config, rotaryBase)) : null;
    const local = localRotaryBase === rotaryBase ? all : all && device.upload(rotaryTurns(config, localRotaryBase));
    this.#turns = all && { all, local: local! };
    const { relativeBuckets = 0, relativeDistance = 128 } = config;
    this.#bias = null;
    if (positions === 'alibi') {
      const most = maxPositions - 1;
      this.#bias = { values: device.upload(alibiBias(numHeads, most)), most };
    } else if (positions === 'relative') {
      const most = relativeDistance + 1;
      const table = read('relative_attention_bias.weight')!.data;
      const values = device.upload(bucketBias(table, numHeads, relativeBuckets, relativeDistance, most));
      this.#bias = { values, most };
    }
    this.#distanceRows =
      positions === 'disentangled'
        ? device.upload(distanceRows(relativeBuckets, relativeDistance, maxPositions - 1))
        : null;
  }

  /** Uploads the parameters of `model` whose names begin with `prefix`. */
  static async open(
    device: Device,
    config: RawEncoderModelConfig,
    model: RawEncoderModel,
    prefix = '',
  ): Promise<GpuEncoder> {
    const all = new Map(model.parameters().map(({ name, shape }, i) => [name, { i, shape }]));
    const read: Read = (name) => {
      device.uploading = prefix + name;
      const found = all.get(prefix + name);
      return found ? { data: model.readParameter(found.i), shape: found.shape } : null;
    };
    const made = await device.checked(() => new GpuEncoder(device, config, read));
    if (config.positions === 'disentangled') await made.#projectDistances(read);
    return made;
  }

  /** `scale`: factors on the rows of the weight and of the bias. `gated`: their halves are interleaved, the activated one first. */
  #linear(weight: Parameter, bias: Parameter, activation = 'identity', gated = false, scale?: Float32Array): Linear {
    const [outputs, inputs] = [weight!.shape[0]!, weight!.data.length / weight!.shape[0]!];
    const arranged = (data: Float32Array) => {
      const width = data.length / outputs;
      const out = new Float32Array(data.length);
      for (let row = 0; row < outputs; row++) {
        const second = row % 2 === (this.#config.gateSecond ? 0 : 1) ? outputs / 2 : 0;
        const from = gated ? second + (row >> 1) : row;
        const values = data.subarray(from * width, (from + 1) * width);
        out.set(scale ? values.map((value) => value * scale[row]!) : values, row * width);
      }
      return out;
    };
    const upload = (data: Float32Array) => this.#device.upload(gated || scale ? arranged(data) : data);
    return { weight: upload(weight!.data), bias: bias && upload(bias.data), inputs, outputs, activation, gated };
  }

  #norm(read: Read, name: string): Norm | null {
    const weight = read(`${name}weight`);
    return weight && this.#makeNorm([weight], [read(`${name}bias`)]);
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

  #layer(name: string, read: Read): Layer {
    const { activation, gated = false } = this.#config;
    const of = (part: string) => read(name + part);
    const scales = [1, 2].map((n) => of(`layer_scale${n}.weight`)?.data);
    const [queryNorm, keyNorm] = ['q', 'k'].map((part) => `self_attn.${part}_norm.`);
    return {
      project: this.#linear(projectionOf(of), of('self_attn.in_proj_bias')),
      output: this.#linear(
        of('self_attn.out_proj.weight'),
        of('self_attn.out_proj.bias'),
        'identity',
        false,
        scales[0],
      ),
      linear1: this.#linear(of('linear1.weight'), of('linear1.bias'), activation, gated),
      linear2: this.#linear(of('linear2.weight'), of('linear2.bias'), 'identity', false, scales[1]),
      norm1: this.#norm(of, 'norm1.'),
      norm2: this.#norm(of, 'norm2.'),
      nestedNorm: this.#norm(of, 'nested_norm.'),
      outputNorm1: this.#norm(of, 'output_norm1.'),
      outputNorm2: this.#norm(of, 'output_norm2.'),
      headNorm: of(`${queryNorm}weight`)
        ? this.#makeNorm(
            [of(`${queryNorm}weight`), of(`${keyNorm}weight`)],
            [of(`${queryNorm}bias`), of(`${keyNorm}bias`)],
          )
        : null,
      distances: null,
    };
  }

  #readConvolution(read: Read): { product: Linear; norm: Norm } | null {
    const weight = read('convolution.weight');
    if (!weight) return null;
    const product = this.#linear(weight, read('convolution.bias'), this.#config.convolutionActivation);
    return { product, norm: this.#norm(read, 'convolution.norm.')! };
  }

  /** DeBERTa: projects the embeddings of distances in each layer, once. */
  async #projectDistances(read: Read): Promise<void> {
    const { numLayers, embedDim, sharedLayers } = this.#config;
    const table = read('relative_embeddings.weight')!;
    const rows = table.shape[0]!;
    const relativeNorm = await this.#device.checked(() => this.#norm(read, 'relative_norm.'));
    for (let i = 0; i < (sharedLayers ? Math.min(1, numLayers) : numLayers); i++) {
      const of = (part: string) => read(`layers.${i}.self_attn.${part}`);
      const product = await this.#device.checked(() => this.#linear(...distanceProjection(of, embedDim)));
      const distances = await this.#device.checked(() => this.#device.allocate(rows * product.outputs));
      await this.#device.run(0, (to) => {
        let x = to.write('x0', table.data);
        if (relativeNorm) x = this.#normalize(to, relativeNorm, x, 'x1');
        this.#multiply(to, product, x, distances);
      });
      this.#layers[i]!.distances = distances;
    }
  }

  /** The most rows of a batch, so that no buffer exceeds the device's limits. */
  get maxRows(): number {
    const { embedDim, feedForwardDim, numHeads, keyValueHeads, headDim, convolution = 0 } = this.#config;
    const widest = Math.max(
      embedDim * Math.max(1, convolution),
      feedForwardDim,
      (numHeads + 2 * keyValueHeads) * headDim,
    );
    const { maxStorageBufferBindingSize, maxBufferSize, maxComputeWorkgroupsPerDimension } = this.#device.limits;
    const rows = Math.floor(Math.min(maxStorageBufferBindingSize, maxBufferSize) / (4 * widest));
    return Math.min(16_384, rows, maxComputeWorkgroupsPerDimension);
  }

  async run(
    begin: () => RawEncoding,
    batch: DeviceBatch,
    headMask: Float32Array[] | null,
    { use, onLayer, returnWeights = false, returnStates = false, pooling }: PieceHooks,
  ): Promise<void> {
    const { numLayers, embedDim, numHeads } = this.#config;
    const encoding = calling('model', begin);
    let embeddings: Float32Array;
    try {
      embeddings = calling('model', () => encoding.hidden());
    } finally {
      encoding.delete();
    }
    const count = batch.lengths.length;
    const size = embeddings.length;
    const matrices = numHeads * batch.lengths.reduce((sum, length) => sum + length * length, 0);
    const modes = returnStates || returnWeights ? null : (pooling?.modes ?? null);
    const states = returnStates ? Math.max(0, numLayers - 1) : 0;
    const reads =
      (modes ? modes.length * count * embedDim : size) + states * size + (returnWeights ? numLayers * matrices : 0);
    const results = await this.#device.run(reads, (to) => {
      const about = this.#about(to, batch, pooling?.skipped ?? 0, headMask);
      let x = to.write('embeddings', embeddings);
      for (let i = 0; i < numLayers; i++) {
        x = this.#runLayer(to, i, x, about, returnWeights ? matrices : 0);
        if (i === 0 && this.#convolution) x = this.#convolve(to, x, about);
        if (returnStates && i < numLayers - 1) to.read(x);
      }
      if (this.#finalNorm) x = this.#normalize(to, this.#finalNorm, x, free(x));
      for (const mode of modes ?? []) {
        const pooled = to.scratch('pooled', count * embedDim);
        to.dispatch(pool(mode, embedDim), [x, pooled, about.texts], Math.ceil(embedDim / 64), count);
        to.read(pooled);
      }
      if (!modes) to.read(x);
    });
    calling('model', () => {
      let next = 0;
      onLayer?.(-1, { hidden: () => embeddings, pool: unread }, null);
      for (let i = 0; i < numLayers && (returnStates || returnWeights); i++) {
        const softmax = returnWeights ? results[next++]! : null;
        const rows = returnStates ? (i < numLayers - 1 ? results[next++]! : results.at(-1)!) : null;
        onLayer?.(i, { hidden: () => rows ?? unread(), pool: unread }, softmax);
      }
      const last = modes ? null : results.at(-1)!;
      use({ hidden: () => last ?? unread(), pool: (mode) => results[modes?.indexOf(mode) ?? -1] ?? unread() });
    });
  }

  /** Writes what the kernels need to know of the texts. */
  #about(
    to: Recorder,
    { lengths, keyMask, angles }: DeviceBatch,
    skipped: number,
    headMask: Float32Array[] | null,
  ): About {
    const { numHeads } = this.#config;
    const [rows, tiles, texts]: number[][] = [[], [], []];
    let begin = 0;
    let matrices = 0;
    for (const length of lengths) {
      texts!.push(begin, length, skipped, 0);
      for (let i = 0; i < length; i++) rows!.push(begin, length, matrices, 0);
      for (let i = 0; i < length; i += QUERIES) tiles!.push(begin, length, i, 0);
      begin += length;
      matrices += numHeads * length * length;
    }
    const padded = Math.ceil(numHeads / 64) * 64; // each layer's factors begin at a multiple of 256 bytes
    const factors = headMask && new Float32Array(padded * headMask.length);
    headMask?.forEach((row, i) => factors!.set(row, i * padded));
    return {
      count: begin,
      rows: to.write('rows', Uint32Array.from(rows!)),
      tiles: to.write('tiles', Uint32Array.from(tiles!)),
      texts: to.write('texts', Uint32Array.from(texts!)),
      keyMask:
        keyMask &&
        to.write(
          'key mask',
          keyMask.map((value) => (value === 0 ? 0 : -1)),
        ),
      factors: factors && { of: to.write('factors', factors), padded },
      turns: angles && to.write('turns', givenTurns(angles)),
    };
  }

  /** Runs layer i on x, which keeps its values. `matrices`: the number of attention weights, which are read; 0: none are. */
  #runLayer(to: Recorder, i: number, x: Binding, about: About, matrices: number): Binding {
    const config = this.#config;
    const layer = this.#layers[config.sharedLayers ? 0 : i]!;
    const attend = (from: Binding, residual: Binding | null, name: string) => {
      const context = this.#attend(to, i, layer, from, about, matrices);
      return this.#multiply(to, layer.output, context, name, residual);
    };
    const feed = (from: Binding, residual: Binding | null, name: string) => {
      const hidden = this.#multiply(to, layer.linear1, from, 'hidden');
      return this.#multiply(to, layer.linear2, hidden, name, residual);
    };
    let attended: Binding;
    if (layer.nestedNorm) {
      const sum = attend(x, x, free(x));
      const inner = this.#normalize(to, layer.nestedNorm, sum, free(x, sum), x);
      attended = this.#normalize(to, layer.norm1!, inner, free(x, inner));
    } else {
      attended = this.#block(to, x, layer.norm1, layer.outputNorm1, attend);
    }
    return this.#block(to, attended, layer.norm2, layer.outputNorm2, feed);
  }

  /** x and what a block makes of it, with the norm before the block or after the sum. */
  #block(
    to: Recorder,
    x: Binding,
    own: Norm | null,
    ofOutput: Norm | null,
    run: (from: Binding, residual: Binding | null, name: string) => Binding,
  ): Binding {
    const isFirst = this.#config.normFirst;
    const from = own && isFirst ? this.#normalize(to, own, x, free(x)) : x;
    let sum: Binding;
    if (ofOutput) {
      const output = run(from, null, free(x, from));
      sum = this.#normalize(to, ofOutput, output, free(x, output), x);
    } else {
      sum = run(from, x, free(x, from));
    }
    return own && !isFirst ? this.#normalize(to, own, sum, free(sum)) : sum;
  }

  #attend(to: Recorder, i: number, layer: Layer, from: Binding, about: About, matrices: number): Binding {
    const config = this.#config;
    const { numHeads, keyValueHeads, headDim, eps, rmsNorm = false, window = -1 } = config;
    const isLocal = window >= 0 && (config.localLayers?.[i] ?? false);
    const projected = this.#multiply(to, layer.project, from, 'projected');
    const turns = about.turns ?? this.#turns?.[isLocal ? 'local' : 'all'] ?? null;
    const { headNorm } = layer;
    if (headNorm || turns) {
      const kernel: HeadsKernel = {
        heads: numHeads,
        keyHeads: keyValueHeads,
        headDim,
        stride: layer.project.outputs,
        norm: headNorm && {
          eps,
          rms: rmsNorm,
          bias: headNorm.bias !== null,
          joint: config.jointQkNorm ?? false,
        },
        rotaryDim: about.turns ? headDim : turns ? (config.rotaryDim ?? 0) : 0,
      };
      const bindings = [projected, headNorm?.weight, headNorm?.bias, turns && about.rows, turns];
      to.dispatch(heads(kernel), bound(bindings), headGroups(kernel), about.count);
    }
    const kernel: ScoresKernel = {
      heads: numHeads,
      keyHeads: keyValueHeads,
      headDim,
      scale: config.attentionScale || 1 / Math.sqrt(headDim),
      window: isLocal ? window : -1,
      causal: config.causal ?? false,
      keyMask: about.keyMask !== null,
      headMask: about.factors !== null,
      bias: this.#bias?.most ?? null,
      distances: this.#distanceRows ? config.maxPositions - 1 : null,
    };
    const factors = about.factors && {
      buffer: about.factors.of.buffer,
      offset: 4 * i * about.factors.padded,
      size: 4 * about.factors.padded,
    };
    const bindings = (ofHeads: Binding | null) =>
      bound([projected, about.keyMask, ofHeads, this.#bias?.values, layer.distances, this.#distanceRows]);
    if (matrices > 0) {
      const all = to.scratch('weights', matrices);
      to.dispatch(weights({ ...kernel, headMask: false }), [all, about.rows, ...bindings(null)], about.count, numHeads);
      to.read(all);
    }
    const context = to.scratch('context', about.count * numHeads * headDim);
    const tiles = about.tiles.size / 16;
    to.dispatch(attention(kernel), [context, about.tiles, ...bindings(factors)], tiles, numHeads);
    return context;
  }

  /** DeBERTa v2 XLarge: adds a convolution of the embeddings to the first layer's output. */
  #convolve(to: Recorder, x: Binding, about: About): Binding {
    const { embedDim, convolution } = this.#config;
    const { product, norm } = this.#convolution!;
    const gathered = to.scratch('windows', about.count * embedDim * convolution!);
    const embeddings = to.scratch('embeddings', about.count * embedDim);
    to.dispatch(windows(embedDim, convolution!), [embeddings, gathered, about.rows], about.count);
    const sum = this.#multiply(to, product, gathered, free(x), x);
    return this.#normalize(to, norm, sum, free(sum));
  }

  /** `out`: a binding, or the name of a new one. */
  #multiply(to: Recorder, by: Linear, x: Binding, out: string | Binding, residual: Binding | null = null): Binding {
    const { inputs, outputs, activation, gated, weight, bias } = by;
    const rows = x.size / 4 / inputs;
    const y = typeof out === 'string' ? to.scratch(out, (rows * outputs) / (gated ? 2 : 1)) : out;
    const code = linear({ inputs, outputs, activation, gated, bias: bias !== null, residual: residual !== null });
    const bindings = bound([x, weight, y, bias, residual]);
    to.dispatch(code, bindings, Math.ceil(outputs / LINEAR_TILE.columns), Math.ceil(rows / LINEAR_TILE.rows));
    return y;
  }

  #normalize(to: Recorder, by: Norm, x: Binding, name: string, residual: Binding | null = null): Binding {
    const { eps, rmsNorm = false } = this.#config;
    const y = to.scratch(name, x.size / 4);
    const code = norm({ width: by.width, eps, rms: rmsNorm, bias: by.bias !== null, residual: residual !== null });
    const bindings = bound([x, by.weight, y, by.bias, residual]);
    to.dispatch(code, bindings, x.size / 4 / by.width);
    return y;
  }
}

function unread(): never {
  throw new HeedError('INTERNAL', 'device: values that were not read');
}
