/**
 * Types for describing the published encoder families, and functions that read sizes, layers and activations in
 * config.json; rope.ts reads rotary positions. Notation: E width, F feed-forward width, {i} number of a layer.
 */
import { PUBLISHED_NAMES } from '../../base/activations.js';
import type { RawEncoderModelConfig } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import type { ImagesOf, PreprocessingOf } from '../image-encoder.js';

/** Limits far beyond any published encoder. */
export const MAX_WIDTH = 2 ** 16;
export const MAX_LAYERS = 1024;
/** The kinds of a layer's attention by Hugging Face's names: to all tokens, or within a window. */
const LAYER_TYPES: unknown[] = ['full_attention', 'sliding_attention'];

/** The rows of an `EncoderModel` parameter that a tensor of the checkpoint fills, beginning at `firstRow`. */
export interface ParameterRows {
  parameter: string;
  firstRow: number;
}

/**
 * The parameter's name in heed, to which `weight` or `bias` is appended, or a function that also returns the first row.
 */
export type CoreName =
  | string
  | ((config: RawEncoderModelConfig, part: 'weight' | 'bias') => { name: string; firstRow: number });

/** The defaults of the options of `EncoderModelConfig` that are also read here. */
export const DEFAULTS = {
  positionOffset: 0,
  typeVocabSize: 0,
  activation: 'gelu',
  eps: 1e-12,
  positions: 'absolute' as RawEncoderModelConfig['positions'],
  int8: false,
};

/** The options of an encoder; those without a default are required. */
export type Config = Omit<RawEncoderModelConfig, keyof typeof DEFAULTS> & Partial<RawEncoderModelConfig>;

/** The families in rotary-families.ts. */
export const ROTARY_FAMILIES = [
  'modernbert',
  'nomic_bert',
  'qwen3',
  'gemma3_text',
  'new',
  'gte',
  'ultrabert',
  'jina_embeddings_v3',
  'eurobert',
  'llama',
  'embedding_gemma2',
  'embedding_gemma2_text',
] as const;
export type RotaryFamilyName = (typeof ROTARY_FAMILIES)[number];

/** The families in bert-like-families.ts. */
export const BERT_LIKE_FAMILIES = [
  'distilbert',
  'mpnet',
  'electra',
  'albert',
  'deberta-v2',
  'ernie',
  'data2vec-text',
  'roformer',
  'megatron-bert',
  'roberta-prelayernorm',
  'xlm-roberta-xl',
] as const;
export type BertLikeFamilyName = (typeof BERT_LIKE_FAMILIES)[number];

/** The families in t5-families.ts. */
export const T5_FAMILIES = ['t5', 'mt5', 'umt5'] as const;
export type T5FamilyName = (typeof T5_FAMILIES)[number];

/** An encoder's parameters by the names of modules and tensors in the checkpoint. */
export interface EncoderNames {
  /** Modules outside the layers. */
  modules: Record<string, CoreName>;
  /** Tensors outside the layers that do not belong to a module. */
  tensors?: Record<string, string> | undefined;
  /** The common prefix of the modules of layer {i}, or those of several versions. */
  layerPrefix: string | readonly string[];
  /** The modules of a layer, with their names in heed below `layers.{i}.` */
  layer: Record<string, CoreName>;
  /** The tensors of a layer that do not belong to a module. */
  layerTensors?: Record<string, string> | undefined;
  /** The module of a layer with its own biases of distances, for families with `relativePerLayer`. */
  layerBias?: string | undefined;
}

/** The prefix of an image encoder's parameters. */
export const VISION = 'vision.';

export interface Family extends EncoderNames {
  /** The prefix of the encoder's tensors in a checkpoint with a head. A bare encoder has no prefix. */
  prefix: string;
  config(settings: Settings): Config;
  /** The names of the image encoder's parameters, which begin with VISION, and its options. */
  vision?: (EncoderNames & { config: RawEncoderModelConfig }) | undefined;
  /** Matches biases that may be absent from a checkpoint, by their names without the prefix. They are then zero. */
  optionalBiases?: RegExp | undefined;
  /** Tensors that are copies of others, with the names of the originals. They are not read if the original is present. */
  copies?: Readonly<Record<string, string>> | undefined;
  /** Matches biases that the configuration leaves out, by their names without the prefix. They are zero in any case. */
  withoutBiases?: RegExp | undefined;
  /** The name of the linear layer for `pooler_output`, if the family has one. */
  pooler?: string | undefined;
  /** Makes the encoder, for families that encode images (and texts). */
  images?: ImagesOf | undefined;
  /** Reads the preprocessing of images, for families that encode images. */
  preprocessing?: PreprocessingOf | undefined;
  /** For families that encode images: the pooling of texts, or of images if there are no texts. */
  pooling?: 'cls' | 'last' | undefined;
  /**
   * For families that encode images, for T5 and for GLiNER: matches the tensors after the encoders, by their names
   * without the prefix. Others: the names of all task heads.
   */
  headTensors?: RegExp | undefined;
  /** The ids that the model reads in place of some tokens, by the ids of these tokens. */
  replacedTokens?: ((settings: Settings) => ReadonlyMap<number, number>) | undefined;
}

/**
 * The rows of the queries, keys or values: in one packed matrix if all have the model's width, otherwise in three
 * matrices. Biases are always packed.
 */
const projection =
  (of: 'q' | 'k' | 'v'): CoreName =>
  ({ embedDim, numHeads, keyValueHeads, headDim }, part) => {
    const width = numHeads * headDim;
    const keyWidth = keyValueHeads * headDim;
    if (part === 'weight' && (width !== embedDim || keyWidth !== embedDim))
      return { name: `self_attn.${of}_proj_`, firstRow: 0 };
    return { name: packedQkv, firstRow: { q: 0, k: width, v: width + keyWidth }[of] };
  };

/** The packed projection of queries, keys and values. */
export const packedQkv = 'self_attn.in_proj_';
export const queryRows = projection('q');
export const keyRows = projection('k');
export const valueRows = projection('v');
/** The half of a gated feed-forward block without activation. */
export const secondHalf: CoreName = ({ feedForwardDim }) => ({ name: 'linear1.', firstRow: feedForwardDim });

/** The width of the last hidden states and of pooled vectors. */
export const outputWidth = ({ outputDim, embedDim }: Pick<RawEncoderModelConfig, 'outputDim' | 'embedDim'>): number =>
  outputDim || embedDim;

/** The options of a layer, which differ if heads of local layers have a size of their own. */
export function layerConfig(config: RawEncoderModelConfig, layer: number): RawEncoderModelConfig {
  if (!config.localLayers?.[layer] || !(config.localHeadDim || config.localKeyValueHeads)) return config;
  return {
    ...config,
    headDim: config.localHeadDim || config.headDim,
    keyValueHeads: config.localKeyValueHeads || config.keyValueHeads,
  };
}

type Keys = string | string[];

/** Keys of config.json, where they differ from BERT's. */
interface SizeKeys {
  width?: Keys | undefined;
  heads?: Keys | undefined;
  layers?: Keys | undefined;
  feedForward?: Keys | undefined;
  positions?: Keys | undefined;
}

/**
 * Reads the sizes of the encoder. `fallback`: values for absent settings; with `headDim`, the family's heads have their
 * own width, and queries may be grouped.
 */
export function sizesOf(
  s: Settings,
  fallback: {
    maxPositions: number;
    vocabSize?: number | undefined;
    feedForwardFactor?: number | undefined;
    positionOffset?: number | undefined;
    headDim?: number | undefined;
  },
  {
    width = 'hidden_size',
    heads = 'num_attention_heads',
    layers = 'num_hidden_layers',
    feedForward = 'intermediate_size',
    positions = 'max_position_embeddings',
  }: SizeKeys = {},
): Config {
  const { maxPositions, vocabSize, feedForwardFactor, positionOffset = 0, headDim } = fallback;
  const embedDim = s.count(width, undefined, 1, MAX_WIDTH);
  const numHeads = s.count(heads, undefined, 1, embedDim);
  if (!headDim && embedDim % numHeads !== 0)
    throw s.wrong(s.keyOf(heads), `a divisor of ${s.keyOf(width)} (${embedDim})`, numHeads);
  return {
    vocabSize: vocabSize ?? s.count('vocab_size', undefined, 1),
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

/**
 * Per layer, whether its attention is limited to the window. `isLocal` decides for files without the list
 * `layer_types`.
 */
export function localLayers(s: Settings, numLayers: number, isLocal: (layer: number) => boolean): boolean[] {
  const key = 'layer_types';
  const types = s.get(key) ?? Array.from({ length: numLayers }, (_, i) => LAYER_TYPES[isLocal(i) ? 1 : 0]);
  if (!Array.isArray(types) || types.length !== numLayers || types.some((type) => !LAYER_TYPES.includes(type)))
    throw s.wrong(key, `a list of ${numLayers} entries, each '${LAYER_TYPES.join("' or '")}'`, types);
  return types.map((type) => type === LAYER_TYPES[1]);
}

/** heed's activations by Hugging Face's names. */
const ACTIVATIONS = new Map(
  Object.entries(PUBLISHED_NAMES).flatMap(([own, names]) => names.map((name) => [name, own] as const)),
);

/** Activations of transformers that heed lacks, and why. */
const REFUSED = new Map([
  ['prelu', 'whose slope is a parameter'],
  ['xielu', 'whose factors are parameters'],
  ['sqrtsoftplus', 'which is for routers of experts'],
]);

export function activation(s: Settings, key: string, fallback: string): string {
  const name = s.text(key, fallback);
  const own = ACTIVATIONS.get(name);
  if (own !== undefined) return own;
  const why = REFUSED.get(name);
  throw s.unsupported(key, `one of ${[...ACTIVATIONS.keys()].join(', ')}`, `'${name}'${why ? `, ${why}` : ''}`);
}

/** The angles w_k = base^(-2k/D). */
export const plainFrequencies = (base: number, dim: number): number[] =>
  Array.from({ length: dim / 2 }, (_, k) => base ** ((-2 * k) / dim));
