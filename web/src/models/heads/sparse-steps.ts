/**
 * The modules of sentence-transformers' SparseEncoder besides SpladePooling: SparseAutoEncoder and
 * SparseStaticEmbedding. Imported on demand. Notation: E width of a vector, H width of its code, V tokens.
 */
import { formatShape, invalid, invalidFile } from '../../base/error.js';
import type { SignalLike } from '../../base/platform.js';
import type { RawLayers, RawTensor, RawTensorLayer } from '../../base/wasm/core.js';
import { discard, type ModelFolder, parseJson, readAll } from '../../io/files.js';
import { memoryFile } from '../../io/memory.js';
import { readableDtype, readTensors, tensorOf, widened, writeSafetensors } from '../../io/safetensors.js';
import { Settings } from '../../io/settings.js';
import { TextTokenizer } from '../../text/tokenizer.js';
import { isSparse, modelOf, type OtherStep, type Step } from '../families/steps.js';
import type { WeightFiles } from '../families/weight-files.js';
import type { LoadedModel } from '../loaded-model.js';
import type { SparseVector } from './sparse.js';
import { largestEntries } from './sparse-pooling.js';
import type { Values } from './step-values.js';
import { makeDense } from './task-heads.js';

const inFolder = (path: string, name: string) => (path === '' ? name : `${path}/${name}`);

/** The tensors of a module, by name, with their shapes. */
async function tensorsIn(folder: ModelFolder, path: string, signal: SignalLike | undefined) {
  const file = await folder.open(path, { required: true, signal });
  const tensors = await readTensors(file);
  /** The first of `names` in the file. */
  return (names: readonly string[], shape: (number | null)[]): RawTensor => {
    const name = names.find((each) => tensors.has(each)) ?? names[0]!;
    const tensor = tensors.get(name);
    if (
      tensor &&
      tensor.shape.length === shape.length &&
      shape.every((size, i) => [null, tensor.shape[i]].includes(size))
    ) {
      const dtype = readableDtype(tensor.dtype, tensorOf(file.name, name));
      return { shape: tensor.shape, data: widened(tensor.bytes, dtype, { name, shape: tensor.shape }) };
    }
    const expected = shape.map((size) => size ?? '...').join(', ');
    throw invalidFile(file.name, `'${name}' [${expected}]`, tensor ? formatShape(tensor.shape) : 'none');
  };
}

/**
 * A sparse autoencoder (CSR: Wen et al. 2025, arXiv:2503.01776): of the H products W (x - b) + c, the k largest, if
 * they are positive.
 */
export class SparseAutoEncoder {
  readonly #encoder: RawTensorLayer;
  readonly #bias: Float32Array;
  readonly #k: number;
  readonly #normalizes: boolean;

  private constructor(encoder: RawTensorLayer, bias: Float32Array, k: number, normalizes: boolean) {
    this.#encoder = encoder;
    this.#bias = bias;
    this.#k = k;
    this.#normalizes = normalizes;
  }

  /** `limit`: the folder's `max_active_dims`, which replaces k. */
  static async load(
    calls: RawLayers,
    folder: ModelFolder,
    path: string,
    settings: Settings,
    limit: number | undefined,
    signal: SignalLike | undefined,
  ): Promise<SparseAutoEncoder> {
    const width = settings.count('input_dim', undefined, 1);
    const codes = settings.count('hidden_dim', 512, 1);
    const k = limit ?? settings.count('k', 8, 1);
    if (k > codes) throw settings.wrong('k', `at most ${codes}, hidden_dim`, k);
    const tensor = await tensorsIn(folder, inFolder(path, 'model.safetensors'), signal);
    // The decoder is the transpose of the encoder, and files have either name.
    const weight = tensor(['encoder.weight', 'decoder.linear.weight'], [codes, width]);
    const bias = tensor(['latent_bias'], [codes]);
    const layer = makeDense(calls, { name: 'encoder', weight, bias }, 'identity');
    return new SparseAutoEncoder(layer, tensor(['pre_bias'], [width]).data, k, settings.flag('normalize', false));
  }

  /** The sparse vectors of vectors [N, E]. */
  encode({ data, shape }: RawTensor): SparseVector[] {
    const [count, width] = shape as [number, number];
    const centered = new Float32Array(data.length);
    for (let n = 0; n < count; n++) {
      const row = data.subarray(n * width, (n + 1) * width);
      const prepared = this.#normalizes ? standardized(row) : row;
      for (let e = 0; e < width; e++) centered[n * width + e] = prepared[e]! - this.#bias[e]!;
    }
    const codes = this.#encoder.forward({ x: { data: centered, shape } });
    const size = codes.shape[1]!;
    return Array.from({ length: count }, (_, n) => {
      const row = codes.data.subarray(n * size, (n + 1) * size);
      const positive = Int32Array.from(row.keys()).filter((i) => !(row[i]! <= 0));
      return largestEntries({ indices: positive, values: Float32Array.from(positive, (i) => row[i]!) }, this.#k);
    });
  }

  delete(): void {
    this.#encoder.delete();
  }
}

/** A vector less its mean, divided by its standard deviation (with n - 1) plus 1e-5. */
function standardized(row: Float32Array): Float32Array {
  const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
  const squares = row.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  const deviation = Math.sqrt(squares / (row.length - 1)) + 1e-5;
  return row.map((value) => (value - mean) / deviation);
}

/** Reads a JSON object of weights by token: the weights by id. */
export function weightsByToken(
  json: Uint8Array,
  name: string,
  idOf: (token: string) => number | undefined,
  count: number,
): Float32Array {
  const weights = new Float32Array(count);
  for (const [token, weight] of Object.entries(parseJson(json, name) as Record<string, unknown>)) {
    if (typeof weight !== 'number') throw invalidFile(name, 'a number for each token', JSON.stringify(weight));
    const id = idOf(token);
    if (id !== undefined) weights[id] = weight;
  }
  return weights;
}

/** A weight per token, such as its inverse document frequency: the vector of a text has the weights of its tokens. */
export class TokenWeights {
  constructor(readonly weights: Float32Array) {}

  /**
   * Reads the module's `weight` or, if its settings name a JSON file, the weights of tokens in that file, which is in
   * the module's folder or at the root.
   */
  static async load(
    folder: ModelFolder,
    path: string,
    settings: Settings | null,
    tokenizer: TextTokenizer | null,
    signal: SignalLike | undefined,
  ): Promise<TokenWeights> {
    const json = settings?.text('path', '') ?? '';
    if (!json.endsWith('.json')) {
      const tensor = await tensorsIn(folder, inFolder(path, 'model.safetensors'), signal);
      return new TokenWeights(tensor(['weight'], [null]).data);
    }
    const name = json.split('/').at(-1)!;
    const file =
      (await folder.open(inFolder(path, name), { signal })) ?? (await folder.open(name, { required: true, signal }));
    const weights = weightsByToken(
      await readAll(file),
      file.name,
      (token) => tokenizer?.idOf(token),
      tokenizer?.vocabSize ?? 0,
    );
    return new TokenWeights(weights);
  }

  /** A text's vector, multiplied by the weights of its tokens. */
  restrict({ indices, values }: SparseVector, ids: readonly number[]): SparseVector {
    const has = new Set(ids);
    const kept = [...indices.keys()].filter((i) => has.has(indices[i]!) && (this.weights[indices[i]!] ?? 0) !== 0);
    return {
      indices: Int32Array.from(kept, (i) => indices[i]!),
      values: Float32Array.from(kept, (i) => values[i]! * this.weights[indices[i]!]!),
    };
  }
}

/** The modules of a folder that give sparse vectors, or change them. */
export interface SparseSteps {
  /**
   * Makes the vectors of a piece of texts. `dense`: runs the steps that give dense vectors. null: SPLADE, the vectors of
   * vocabulary logits.
   */
  encode: ((values: Values, dense: () => RawTensor) => SparseVector[]) | null;
  /** Multiplies a text's vector by the weights of its tokens. */
  finish(vector: SparseVector, ids: readonly number[]): SparseVector;
  delete(): void;
}

/** Loads the modules that give sparse vectors besides SpladePooling. */
export async function loadSparseSteps(
  calls: RawLayers,
  { sentence, folder, tokenizer }: LoadedModel,
  signal: SignalLike | undefined,
): Promise<SparseSteps> {
  const { steps, general } = sentence;
  const first = steps.findIndex(isSparse);
  const [source, ...others] = steps.slice(first) as [Step, ...Step[]];
  const isOther = (step: Step, type: string): step is OtherStep => step.kind === 'other' && step.type === type;
  const wrong = others.find((step) => !isOther(step, 'SparseStaticEmbedding'));
  if (wrong) {
    const expected = `only SparseStaticEmbedding after '${source.path}'`;
    throw invalid('modules.json', expected, `'${wrong.path}'`, 'UNSUPPORTED');
  }
  const weights: TokenWeights[] = [];
  for (const step of others as OtherStep[])
    weights.push(await TokenWeights.load(folder, step.path, step.settings, tokenizer, signal));
  const finish = (vector: SparseVector, ids: readonly number[]) =>
    weights.reduce((value, each) => each.restrict(value, ids), vector);
  if (isOther(source, 'SparseAutoEncoder')) {
    const limit =
      general?.get('max_active_dims') === undefined ? undefined : general.count('max_active_dims', undefined, 1);
    const coder = await SparseAutoEncoder.load(calls, folder, source.path, source.settings, limit, signal);
    return { encode: (_, dense) => coder.encode(dense()), finish, delete: () => coder.delete() };
  }
  return { encode: modelOf(steps).isStatic ? tokenWeights : null, finish, delete: () => {} };
}

/** The vectors of texts whose tokens' values are their weights: each token of a text once. */
function tokenWeights(values: Values): SparseVector[] {
  const { data, shape } = values.tokens();
  const width = shape[1]!;
  let at = 0;
  return values.piece.map(({ ids }) => {
    const found = new Map(ids.map((id, i) => [id, data[(at + i) * width]!]));
    at += ids.length;
    const entries = [...found].filter(([, weight]) => weight !== 0).sort(([a], [b]) => a - b);
    return {
      indices: Int32Array.from(entries, ([id]) => id),
      values: Float32Array.from(entries, ([, weight]) => weight),
    };
  });
}

/**
 * The weights of tokens as a table of static embeddings, which the encoder without layers looks up: weight and 0, as its
 * width is 2 or more. `given`: the weights of the module's folder, or the error of a folder that has a JSON file instead.
 */
export async function openWeightTable(
  folder: ModelFolder,
  within: string,
  given: WeightFiles | Error,
  signal: SignalLike | undefined,
): Promise<WeightFiles> {
  const path = within.replace(/\/$/, '');
  const settings = await Settings.in(folder, `${within}config.json`, signal);
  const json = await Settings.in(folder, `${within}tokenizer.json`, signal);
  json?.entries(); // TextTokenizer runs all of it
  const tokenizer = json && (await TextTokenizer.open(json, undefined));
  if (!(given instanceof Error)) {
    const file = await given.files[0]!();
    await discard(file);
  }
  const { weights } = await TokenWeights.load(folder, path, settings, tokenizer, signal);
  const rows = new Float32Array(2 * weights.length);
  weights.forEach((weight, id) => {
    rows[2 * id] = weight;
  });
  const bytes = writeSafetensors([{ name: 'embedding.weight', dtype: 'F32', shape: [weights.length, 2], data: rows }]);
  const name = `${within}model.safetensors`;
  return { files: [async () => memoryFile(name, bytes)], size: bytes.length, onnx: null };
}
