/**
 * The layers of an encoder on a GPU, with the configuration and parameters of the WebAssembly module's `EncoderModel`.
 * Everything is computed in fp32; weights may be stored in fp16. The WebAssembly module embeds the tokens or patches,
 * so the token embeddings, which may exceed a GPU's buffers, are not uploaded.
 * Notation: M total rows of all texts, E width, H heads.
 */
import { calling, HeedError } from '../base/error.js';
import type { RawEncoderModel, RawEncoderModelConfig, RawEncoding } from '../base/wasm/core.js';
import type { DeviceBatch, DeviceLayers, PieceHooks, PieceOptions } from '../models/run.js';
import type { Device, Recorder, Recording } from './device.js';
import { givenTurns } from './gpu-positions.js';
import { RunSites } from './gpu-sites.js';
import { QUERIES } from './kernels/attention.js';
import { numOwnLayers, type Parameters, Uploads, type Weights } from './layers.js';
import { distanceProjection, type Linear, type Norm, type Read } from './parameters.js';
import { type About, multiply, normalize, Pass, type Results } from './pass.js';
import type { Binding } from './webgpu.js';

export class GpuEncoder implements DeviceLayers {
  readonly #device: Device;
  readonly #parameters: Parameters;

  private constructor(device: Device, parameters: Parameters) {
    this.#device = device;
    this.#parameters = parameters;
  }

  /** Uploads the parameters of `model` whose names begin with `prefix`. */
  static async open(
    device: Device,
    config: RawEncoderModelConfig,
    model: RawEncoderModel,
    weights: Weights,
    prefix = '',
  ): Promise<GpuEncoder> {
    const all = new Map(model.parameters().map(({ name, shape }, i) => [name, { i, shape }]));
    const read: Read = (name) => {
      device.uploading = prefix + name;
      const found = all.get(prefix + name);
      return found ? { data: model.readParameter(found.i), shape: found.shape } : null;
    };
    const uploads = new Uploads(device, config, read, weights);
    const made = new GpuEncoder(device, await device.checked(() => uploads.parameters()));
    if (config.positions === 'disentangled' && config.relativeBuckets) await made.#projectDistances(uploads, read);
    return made;
  }

  /** DeBERTa: projects the embeddings of distances once per layer. */
  async #projectDistances(uploads: Uploads, read: Read): Promise<void> {
    const { config, layers } = this.#parameters;
    const device = this.#device;
    const table = read('relative_embeddings.weight')!;
    const rows = table.shape[0]!;
    const relativeNorm = await device.checked(() => uploads.norm('relative_norm.'));
    for (let i = 0; i < numOwnLayers(config); i++) {
      const of = (part: string) => read(`layers.${i}.self_attn.${part}`);
      const product = await device.checked(() => uploads.linear(...distanceProjection(of, config)));
      const distances = await device.checked(() => device.allocate(rows * product.outputs));
      await device.run((to) => this.#project(to, table.data, relativeNorm, product, distances));
      layers[i]!.distances = distances;
    }
  }

  // biome-ignore lint/correctness/useYield: nothing is read
  *#project(to: Recorder, table: Float32Array, norm: Norm | null, product: Linear, distances: Binding): Recording {
    let x = to.write('x0', table);
    if (norm) x = normalize(to, this.#parameters.config, norm, x, 'x1');
    multiply(to, product, x, distances);
  }

  /** Maximum number of rows of a batch for which no buffer exceeds the device's limits. */
  get maxRows(): number {
    const { embedDim, feedForwardDim, numHeads, keyValueHeads, headDim, convolution = 0 } = this.#parameters.config;
    const widest = Math.max(
      embedDim * Math.max(1, convolution),
      feedForwardDim,
      (numHeads + 2 * keyValueHeads) * headDim,
    );
    const { maxStorageBufferBindingSize, maxBufferSize, maxComputeWorkgroupsPerDimension } = this.#device.limits;
    const rows = Math.floor(Math.min(maxStorageBufferBindingSize, maxBufferSize) / (4 * widest));
    return Math.min(16_384, rows, maxComputeWorkgroupsPerDimension);
  }

  async run(begin: () => RawEncoding, batch: DeviceBatch, options: PieceOptions, hooks: PieceHooks): Promise<void> {
    const { numLayers } = this.#parameters.config;
    const { use, onLayer, returnWeights = false, returnStates = false, pooling } = hooks;
    const sites = batch.sites && new RunSites(batch.sites, batch.lengths);
    const encoding = calling('model', begin);
    let embeddings: Float32Array;
    try {
      embeddings = calling('model', () => encoding.hidden());
    } finally {
      encoding.delete();
    }
    const results: Results = {
      states: returnStates ? new Map() : null,
      weights: returnWeights ? new Map() : null,
      last: null,
      pooled: new Map(),
    };
    const { states, weights, pooled } = results;
    await this.#device.run((to) => {
      const about = this.#about(to, batch, pooling?.skipped ?? 0, options.headMask, sites);
      const modes = states || weights ? [] : (pooling?.modes ?? []);
      const pass = new Pass(to, this.#parameters, about, results);
      return pass.run(to.write('embeddings', embeddings), options.sites?.firstLayer ?? 0, modes);
    });
    const rowsOf = (rows: Float32Array | null | undefined) => ({ hidden: () => rows ?? unread(), pool: unread });
    calling('model', () => {
      onLayer?.(-1, rowsOf(embeddings), null);
      for (let i = 0; i < numLayers && (states || weights); i++)
        onLayer?.(i, rowsOf(i < numLayers - 1 ? states?.get(i) : results.last), weights?.get(i) ?? null);
      use({ ...rowsOf(results.last), pool: (mode) => pooled.get(mode) ?? unread() });
    });
  }

  /** Writes the texts' rows, tiles and masks for the kernels. */
  #about(
    to: Recorder,
    { lengths, keyMask, angles }: DeviceBatch,
    skipped: number,
    headMask: Float32Array[] | null,
    sites: RunSites | null,
  ): About {
    const { numHeads } = this.#parameters.config;
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
    const padded = Math.ceil(numHeads / 64) * 64; // each layer's factors must begin at a multiple of 256 bytes
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
      matrices,
      sites,
    };
  }
}

function unread(): never {
  throw new HeedError('INTERNAL', 'device: the values were not read back');
}
