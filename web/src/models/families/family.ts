/**
 * What the published encoder families have in common: the parts of a description of one, and how they read sizes, layers, activations and rotary positions in config.json.
 * Notation: E width, F feed-forward width, {i} a layer's number.
 */

import { invalid } from '../../base/error.js';
import type { RawEncoderModelConfig } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import type { ImagesOf } from '../image-encoder.js';

/** The core's bounds, far beyond any published encoder. */
export const MAX_WIDTH = 2 ** 16;
export const MAX_LAYERS = 1024;
/** The kinds of a layer's attention by Hugging Face's names: over all tokens, or within a window. */
const LAYER_TYPES: unknown[] = ['full_attention', 'sliding_attention'];

/** The rows of a parameter of the core's `EncoderModel` that a tensor of the checkpoint fills, from `firstRow` on. */
export interface ParameterRows {
  parameter: string;
  firstRow: number;
}

/** A core name, to which `weight` or `bias` is appended, and the first row of that parameter, if it is not 0. */
export type CoreName =
  | string
  | ((config: RawEncoderModelConfig, part: 'weight' | 'bias') => { name: string; firstRow: number });

/** The core's defaults of options that are also read here. */
export const DEFAULTS = {
  positionOffset: 0,
  typeVocabSize: 0,
  activation: 'gelu',
  eps: 1e-12,
  positions: 'absolute' as RawEncoderModelConfig['positions'],
  int8: false,
};

/** The core's options; those without a default are required. */
export type Config = Omit<RawEncoderModelConfig, keyof typeof DEFAULTS> & Partial<RawEncoderModelConfig>;

export interface Family {
  /** The prefix of the encoder's tensors in a checkpoint that also has a head; a bare encoder has none. */
  prefix: string;
  config(settings: Settings): Config;
  /** Modules outside the layers, by their names in the checkpoint. */
  modules: Record<string, CoreName>;
  /** Tensors that have no module's name before theirs, by their names in the checkpoint. */
  tensors?: Record<string, ParameterRows>;
  /** Biases that a checkpoint may lack, by their names without the prefix; they are zeros. */
  optionalBiases?: RegExp;
  /** The common prefix of the modules of layer {i}. */
  layerPrefix: string;
  /** The layer's modules: name in the checkpoint -> core name below `layers.{i}.` */
  layer: Record<string, CoreName>;
  /** The dense layer of `pooler_output`, if the family has one. */
  pooler?: string;
  /** Makes the encoder of families that also, or only, encode images. */
  images?: ImagesOf;
  /** Of these families, how texts are pooled, or images, if there are no texts. */
  pooling?: 'cls' | 'last';
  /** Of these families and GLiNERs, the tensors of what follows the encoders, by their names without the prefix. */
  headTensors?: RegExp;
}

/** The rows of the queries, keys or values: of one matrix if all have the width of the model, otherwise of three; of one bias. */
const projection =
  (of: 'q' | 'k' | 'v'): CoreName =>
  ({ embedDim, numHeads, keyValueHeads, headDim }, part) => {
    const width = numHeads * headDim;
    const keyWidth = keyValueHeads * headDim;
    if (part === 'weight' && (width !== embedDim || keyWidth !== embedDim))
      return { name: `self_attn.${of}_proj_`, firstRow: 0 };
    return { name: packedQkv, firstRow: { q: 0, k: width, v: width + keyWidth }[of] };
  };

/** Queries, keys and values in one matrix. */
export const packedQkv = 'self_attn.in_proj_';
export const queryRows = projection('q');
export const keyRows = projection('k');
export const valueRows = projection('v');
/** The half of a gated feed-forward that is not activated. */
export const secondHalf: CoreName = ({ feedForwardDim }) => ({ name: 'linear1.', firstRow: feedForwardDim });

type Keys = string | string[];

/** Keys of config.json that are not BERT's. */
interface SizeKeys {
  width?: Keys;
  heads?: Keys;
  layers?: Keys;
  feedForward?: Keys;
  positions?: Keys;
}

/** The sizes of the stack; the fallbacks are for values that config.json does not have. `headDim`: of families whose heads have a width and groups of their own. */
export function sizesOf(
  s: Settings,
  fallback: { maxPositions: number; feedForwardFactor?: number; positionOffset?: number; headDim?: number },
  {
    width = 'hidden_size',
    heads = 'num_attention_heads',
    layers = 'num_hidden_layers',
    feedForward = 'intermediate_size',
    positions = 'max_position_embeddings',
  }: SizeKeys = {},
): Config {
  const { maxPositions, feedForwardFactor, positionOffset = 0, headDim } = fallback;
  const embedDim = s.count(width, undefined, 1, MAX_WIDTH);
  const numHeads = s.count(heads, undefined, 1, embedDim);
  if (!headDim && embedDim % numHeads !== 0)
    throw s.wrong(s.keyOf(heads), `a divisor of ${s.keyOf(width)} (${embedDim})`, numHeads);
  return {
    vocabSize: s.count('vocab_size', undefined, 1),
    embedDim,
    numHeads,
    ...(headDim
      ? { headDim: s.count('head_dim', headDim, 1, MAX_WIDTH), keyValueHeads: keyValueHeads(s, numHeads) }
      : { headDim: embedDim / numHeads, keyValueHeads: numHeads }),
    numLayers: s.count(layers, undefined, 0, MAX_LAYERS),
    feedForwardDim: s.count(feedForward, feedForwardFactor && feedForwardFactor * embedDim, 1, 4 * MAX_WIDTH),
    maxPositions: s.count(positions, maxPositions, positionOffset + 1),
    positionOffset,
  };
}

function keyValueHeads(s: Settings, numHeads: number): number {
  const key = 'num_key_value_heads';
  const heads = s.count(key, numHeads, 1, numHeads);
  if (numHeads % heads !== 0) throw s.wrong(key, `a divisor of num_attention_heads (${numHeads})`, heads);
  return heads;
}

/** The number of rotated features per head. */
export function rotaryDimOf(s: Settings, keys: string[], { headDim }: Config, fraction = 1): number {
  const dim = Math.floor(headDim * fraction);
  if (dim >= 2 && dim <= headDim && dim % 2 === 0) return dim;
  const key = s.keyOf(keys);
  throw s.wrong(key, `a value for an even number of rotated columns, not ${dim} of ${headDim}`, s.get(key));
}

/** What config.json says of rotary positions: `rope_scaling`, and `rope_parameters`, which transformers 5 writes, of a kind of layers if there are several. The first has priority. */
export function rotarySettings(s: Settings, kind?: string): Settings[] {
  const all = s.record('rope_parameters');
  const own = kind ? all?.record(kind) : (all?.record('full_attention') ?? all);
  return [s.record('rope_scaling'), own].filter((each) => each !== undefined);
}

/** The type of rotary positions. 'default': the ordinary ones, which are not scaled. */
export function rotaryType(settings: Settings): string {
  const fallback = settings.get('factor') === undefined ? 'default' : 'none';
  return settings.text(settings.keyOf(['rope_type', 'type']), fallback);
}

/** The base of the rotary angles: in those settings or, in older files, under `key`. */
export function rotaryTheta(s: Settings, key: string, fallback: number, kind?: string): number {
  const own = rotarySettings(s, kind).find((settings) => settings.get('rope_theta') !== undefined);
  return own?.between('rope_theta', 1, Infinity) ?? s.between(key, 1, Infinity, fallback);
}

/** The same for families without scaled angles, which are refused. */
export function rotaryBase(s: Settings, key: string, fallback: number, kind?: string): number {
  for (const settings of rotarySettings(s, kind)) {
    const type = rotaryType(settings);
    if (type !== 'default') throw invalid(settings.file, "none, or rope_type 'default'", `'${type}'`, 'UNSUPPORTED');
  }
  return rotaryTheta(s, key, fallback, kind);
}

/** Whether each layer's attention is limited to the window; `isLocal` says it for files without the list `layer_types`. */
export function localLayers(s: Settings, numLayers: number, isLocal: (layer: number) => boolean): boolean[] {
  const key = 'layer_types';
  const types = s.get(key) ?? Array.from({ length: numLayers }, (_, i) => LAYER_TYPES[isLocal(i) ? 1 : 0]);
  if (!Array.isArray(types) || types.length !== numLayers || types.some((type) => !LAYER_TYPES.includes(type)))
    throw s.wrong(key, `a list of ${numLayers} entries, each '${LAYER_TYPES.join("' or '")}'`, types);
  return types.map((type) => type === LAYER_TYPES[1]);
}

/** The core's activations by Hugging Face's names. */
const ACTIVATIONS: Record<string, string> = {
  gelu: 'gelu',
  gelu_new: 'gelu_tanh',
  gelu_pytorch_tanh: 'gelu_tanh',
  gelu_fast: 'gelu_tanh',
  relu: 'relu',
  silu: 'silu',
  swish: 'silu',
  quick_gelu: 'quick_gelu',
  tanh: 'tanh',
};

export function activation(s: Settings, key: string, fallback: string): string {
  const name = s.text(key, fallback);
  if (Object.hasOwn(ACTIVATIONS, name)) return ACTIVATIONS[name]!;
  throw s.unsupported(key, `one of ${Object.keys(ACTIVATIONS).join(', ')}`, `'${name}'`);
}
