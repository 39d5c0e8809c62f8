/**
 * Opens a model's device: finds the GPU, uploads the layers, and compares the GPU with WebAssembly in results and
 * speed.
 */

import { HeedError, invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { append } from '../base/lists.js';
import type { GpuLike, SignalLike } from '../base/platform.js';
import type { RawEncoderModel, RawEncoderModelConfig, RawEncoding } from '../base/wasm/core.js';
import { type Device as About, type DeviceFigures, type ModelDevice, onCore } from '../models/device.js';
import { poolingOf, vectorSteps } from '../models/families/steps.js';
import type { ImageEncoder } from '../models/image-encoder.js';
import type { LoadedModel, LoadModelOptions } from '../models/loaded-model.js';
import { type DeviceBatch, type DeviceLayers, type PieceOptions, runLayers } from '../models/run.js';
import { Device } from './device.js';
import { GpuEncoder } from './gpu-encoder.js';
import type { PoolingName } from './kernels/pool.js';
import type { Adapter } from './webgpu.js';

type Request = 'webgpu' | 'auto';
type Input = DeviceFigures['input'];

/**
 * Maximum |a - b| / |b| of a row that is accepted. With int8 weights, WebAssembly rounds activations, too, and the GPU
 * does not. With fp16 weights, the checkpoints of the tests differ by up to 0.002.
 */
const TOLERANCES = { fp32: 0.01, fp16: 0.01, q8: 0.1 };
/** Lengths of the compared texts, clamped to the model's maximum. None is a multiple of the kernels' tile sizes. */
const LENGTHS = { short: 7, long: { auto: 250, webgpu: 41 } };
const MODES: PoolingName[] = ['mean', 'cls', 'last', 'max', 'mean_sqrt_len', 'weighted_mean'];

/** One of a model's encoders, on the GPU. */
interface Stack {
  layers: GpuEncoder;
  /** Number of rows from which the GPU is faster. */
  least: number;
}

/** Runs an input on the GPU, or in WebAssembly if `layers` is null, and returns the rows to compare. */
type Probe = (layers: DeviceLayers | null, lengths: number[]) => Promise<{ rows: Float32Array; width: number }[]>;

class Choice implements ModelDevice {
  about: About;
  readonly #request: Request;
  readonly #device: Device | null;
  readonly #stacks: Partial<Record<Input, Stack>>;

  constructor(request: Request, about: About, device: Device | null = null, stacks: Choice['stacks'] = {}) {
    this.#request = request;
    this.about = about;
    this.#device = device;
    this.#stacks = stacks;
  }

  get stacks(): Partial<Record<Input, Stack>> {
    return this.#stacks;
  }

  get maxRows(): number | undefined {
    return this.about.type === 'webgpu' ? this.#stacks.text?.layers.maxRows : undefined;
  }

  async attempt(input: Input, rows: number, run: (layers: DeviceLayers | null) => Promise<void>): Promise<void> {
    const stack = this.#stacks[input];
    if (!stack || rows === 0 || rows < stack.least || this.about.type === 'wasm') return run(null);
    try {
      await run(stack.layers);
    } catch (error) {
      const isGpus = error instanceof HeedError && ['GPU_FAILED', 'OUT_OF_MEMORY', 'UNSUPPORTED'].includes(error.code);
      if (!isGpus || this.#request === 'webgpu') throw error;
      // After OUT_OF_MEMORY, the next call may succeed. After GPU_FAILED, the GPU is not used again.
      if (error.code === 'GPU_FAILED' && this.about.type === 'webgpu') {
        this.about = { ...this.about, type: 'wasm', reason: `the GPU failed in a call: ${error.message}`, dtype: null };
        this.#device?.abandon();
      }
      await run(null);
    }
  }

  delete(): void {
    this.#device?.destroy();
  }
}

/** What a model has that the GPU code lacks; undefined if the GPU can run it. */
function missingFor({ config, raw }: LoadedModel): string | undefined {
  if (config.numLayers === 0 && !raw.images) return 'a model without layers';
  if (config.adapterTasks) return 'a model with adapters of tasks';
  if (config.relativePerLayer) return "UMT5's biases of distances in every layer";
  if (config.rotaryInterleaved) return "RoFormer's rotation of neighboring features";
  if (config.layerInputDim) return 'EmbeddingGemma 2, whose layers have a third block';
  return undefined;
}

/**
 * Chooses the device for a model that has just been loaded. If the GPU cannot be used, 'auto' returns WebAssembly with
 * the error's message as the reason, and 'webgpu' throws the error.
 */
export async function openDevice(
  { gpu }: { gpu?: GpuLike | undefined },
  request: Request,
  loaded: LoadedModel,
  { dtype = 'fp32', signal }: Pick<LoadModelOptions, 'dtype' | 'signal'>,
): Promise<ModelDevice> {
  let device: Device | undefined;
  try {
    const missing = missingFor(loaded);
    if (missing) throw invalid('device', `'wasm' for ${missing}`, `'${request}'`, 'UNSUPPORTED');
    const adapter = await findAdapter(gpu, request);
    device = await Device.open(adapter);
    return await checked(device, describeAdapter(adapter), request, loaded, dtype, signal);
  } catch (error) {
    device?.destroy();
    signal?.throwIfAborted();
    if (request === 'webgpu' || !(error instanceof HeedError)) throw error;
    const measured = (error as { measured?: DeviceFigures[] | undefined }).measured ?? [];
    return new Choice(request, { ...onCore, reason: error.message, measured });
  }
}

async function findAdapter(given: GpuLike | undefined, request: Request): Promise<Adapter> {
  const gpu = given ?? (globalThis as { navigator?: { gpu?: GpuLike | undefined } | undefined }).navigator?.gpu;
  const refuse = (got: string, hint: string) => invalid('device', 'a GPU', got, 'GPU_FAILED', { hint });
  if (!gpu)
    throw refuse('an engine without WebGPU', 'In Node, give load() the `gpu` of the package webgpu; pages need https');
  const adapter = (await gpu
    .requestAdapter({ powerPreference: 'high-performance' })
    .catch(() => null)) as Adapter | null;
  if (!adapter) throw refuse('no adapter', 'The GPU may be unsupported or blocked: see chrome://gpu or about:support');
  if (request === 'auto' && (adapter.info?.isFallbackAdapter ?? adapter.isFallbackAdapter))
    throw refuse('a fallback adapter, which computes in software', "device: 'webgpu' accepts it");
  return adapter;
}

function describeAdapter({ info }: Adapter): string {
  const parts = [info?.vendor, info?.architecture, info?.device, info?.description].filter((part) => part);
  return [...new Set(parts)].join(' ') || 'an adapter without a description';
}

/** Uploads the layers, compares their results with those of WebAssembly and, with 'auto', times both. */
async function checked(
  device: Device,
  adapter: string,
  request: Request,
  loaded: LoadedModel,
  dtype: keyof typeof TOLERANCES,
  signal: SignalLike | undefined,
): Promise<ModelDevice> {
  const { raw, config } = loaded;
  const tolerance = TOLERANCES[dtype];
  const weights = dtype === 'fp16' ? 'fp16' : 'fp32';
  const pause = makeYield(signal);
  const stacks: Partial<Record<Input, Stack>> = {};
  const measured: DeviceFigures[] = [];
  const add = async (input: Input, about: RawEncoderModelConfig, prefix: string, probe: Probe, lengths: number[]) => {
    const layers = await GpuEncoder.open(device, about, raw, weights, prefix);
    const difference = await differenceOf(probe, layers, lengths);
    const figures = lengths.map((length): DeviceFigures => ({ input, length, difference, wasm: null, webgpu: null }));
    append(measured, figures);
    if (!(difference <= tolerance)) {
      const error = invalid(
        'device',
        `a GPU whose rows differ from WebAssembly's by at most ${tolerance} of their norm`,
        `${difference} for ${input}s on ${adapter}`,
        'GPU_FAILED',
      );
      throw Object.assign(error, { measured });
    }
    if (request === 'auto') {
      for (const of of figures) {
        of.wasm = await timeOf(() => probe(null, [of.length]));
        of.webgpu = await timeOf(() => probe(layers, [of.length]));
      }
    }
    stacks[input] = { layers, least: request === 'auto' ? leastRows(figures) : 0 };
  };
  const images = raw.images ? (raw as RawEncoderModel & ImageEncoder) : null;
  if (images) await add('image', images.about.vision, 'vision.', imageProbe(images, pause), [imageRows(images)]);
  if (!images || images.about.text) {
    const limit = config.maxPositions - config.positionOffset;
    const lengths = [LENGTHS.short, LENGTHS.long[request]].map((length) => Math.min(limit, length));
    const modes = request === 'auto' ? MODES : (poolingOf(vectorSteps(loaded.sentence.steps))?.modes ?? ['mean']);
    await add('text', config, '', textProbe(raw, config, modes, pause), [...new Set(lengths)]);
  }
  const reason = reasonOf(request, stacks, measured);
  const type = Object.values(stacks).some(({ least }) => least < Number.POSITIVE_INFINITY) ? 'webgpu' : 'wasm';
  if (type === 'wasm') device.destroy(); // frees the weights
  const about = { type, reason, adapter, dtype: type === 'webgpu' ? weights : null, measured } as const;
  const choice = new Choice(request, about, device, stacks);
  if (images) images.device = choice;
  return choice;
}

function reasonOf(request: Request, stacks: Partial<Record<Input, Stack>>, measured: DeviceFigures[]): string {
  if (request === 'webgpu') return "requested; its rows agree with WebAssembly's";
  return Object.entries(stacks)
    .map(([input, { least }]) => {
      const { length, wasm, webgpu } = measured.filter((figures) => figures.input === input).at(-1)!;
      const times = `${length} rows take ${webgpu!.toFixed(1)} ms on the GPU, ${wasm!.toFixed(1)} in WebAssembly`;
      if (least === Number.POSITIVE_INFINITY) return `${input}s run in WebAssembly: ${times}`;
      return `${input}s run on the GPU${least > 0 ? ` from ${least} rows on` : ''}: ${times}`;
    })
    .join('; ');
}

/**
 * Number of rows from which the GPU is faster, if times grow linearly between and beyond the measured lengths.
 * @internal
 */
export function leastRows(figures: readonly Pick<DeviceFigures, 'length' | 'wasm' | 'webgpu'>[]): number {
  const gain = ({ wasm, webgpu }: (typeof figures)[number]) => wasm! - webgpu!;
  const [short, long] = [figures[0]!, figures.at(-1)!];
  if (gain(long) <= 0) return Number.POSITIVE_INFINITY;
  if (gain(short) >= 0) return 0;
  const share = -gain(short) / (gain(long) - gain(short));
  return Math.ceil(short.length + share * (long.length - short.length));
}

/**
 * Maximum relative difference of a row. All lengths run in one batch, so that texts of different lengths are adjacent.
 */
async function differenceOf(probe: Probe, layers: DeviceLayers, lengths: number[]): Promise<number> {
  const expected = await probe(null, lengths);
  const actual = await probe(layers, lengths);
  let worst = 0;
  expected.forEach(({ rows, width }, i) => {
    for (let at = 0; at < rows.length; at += width) {
      let [square, error] = [0, 0];
      for (let e = at; e < at + width; e++) {
        square += rows[e]! ** 2;
        error += (actual[i]!.rows[e]! - rows[e]!) ** 2;
      }
      const difference = error === 0 ? 0 : Math.sqrt(error / square);
      if (!(difference <= worst)) worst = Number.isNaN(worst) ? worst : difference; // NaN is the worst
    }
  });
  return worst;
}

/** The faster of two runs, in milliseconds. */
async function timeOf(run: () => Promise<unknown>): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < 2; i++) {
    const start = performance.now();
    await run();
    least = Math.min(least, performance.now() - start);
  }
  return least;
}

const optionsFor = (layers: DeviceLayers | null, yieldToEventLoop: () => Promise<void>): PieceOptions => ({
  yieldToEventLoop,
  headMask: null,
  sites: null,
  layers,
});

/**
 * Runs texts of pseudorandom tokens from the whole vocabulary. Returns their last hidden states and, if there are
 * several texts, also their vectors for each of the poolings `modes`.
 */
function textProbe(
  raw: RawEncoderModel,
  config: RawEncoderModelConfig,
  modes: readonly PoolingName[],
  pause: () => Promise<void>,
): Probe {
  return async (layers, given) => {
    const lengths = Int32Array.from(given);
    const total = given.reduce((a, b) => a + b, 0);
    let state = 1;
    const ids = Int32Array.from({ length: total }, () => {
      state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
      return Math.floor((state / 2 ** 32) * config.vocabSize);
    });
    const begin = (): RawEncoding => raw.begin(ids, null, null, lengths, null, null, -1);
    const batch: DeviceBatch = { lengths, keyMask: null, angles: null, sites: null };
    const results: { rows: Float32Array; width: number }[] = [];
    const keep = (rows: Float32Array) => void results.push({ rows, width: config.embedDim });
    const run = (hooks: Parameters<typeof runLayers>[4]) =>
      runLayers(begin, () => {}, config.numLayers, optionsFor(layers, pause), hooks, batch);
    await run({ use: (encoding) => keep(encoding.hidden()) });
    if (given.length > 1) {
      const use: Parameters<typeof run>[0]['use'] = (encoding) => {
        for (const mode of modes)
          keep(
            encoding.pool(
              mode,
              Int32Array.from(given, () => 1),
            ),
          );
      };
      await run({ use, pooling: { modes, skipped: 1 } });
    }
    return results;
  };
}

const imageRows = ({ about: { vision, imageSize } }: ImageEncoder): number =>
  Math.floor(imageSize / vision.patchSize!) ** 2 + (vision.classRow ? 1 : 0) + (vision.registers ?? 0);

/** Runs a synthetic image made of sine waves. */
function imageProbe(images: ImageEncoder, pause: () => Promise<void>): Probe {
  const { imageSize: side, vision } = images.about;
  const values = Float32Array.from({ length: 3 * side * side }, (_, i) => Math.sin(i / 7) + Math.cos(i / 311));
  return async (layers) => {
    const { rows } = await images.run([{ values, height: side, width: side }], optionsFor(layers, pause));
    return [{ rows, width: vision.embedDim }];
  };
}
