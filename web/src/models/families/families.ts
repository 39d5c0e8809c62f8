/**
 * The published encoder families. For each, how config.json describes the layers, and which of heed's parameters each
 * tensor of the checkpoint belongs to. FAMILIES has BERT, RoBERTa and static embeddings; the others are in files that
 * are imported when a model has one of their names. To add a family, add an entry to one of them; a new architecture
 * may need a new option in the C++ `EncoderModelConfig`.
 * Notation: E width, F feed-forward width, {i} number of a layer.
 */
import { importing } from '../../base/error.js';
import { nearestHint } from '../../base/options.js';
import type { RawEncoderModelConfig } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import { STATIC } from '../static-embedding.js';
import { bert, causalOf, POSITION_KIND, robertaConfig } from './bert.js';
import {
  BERT_LIKE_FAMILIES,
  type CoreName,
  DEFAULTS,
  type EncoderNames,
  type Family,
  layerConfig,
  MAX_WIDTH,
  type ParameterRows,
  ROTARY_FAMILIES,
  T5_FAMILIES,
  VISION,
} from './family.js';
import type { GlinerConfig } from './gliner-config.js';

/** Whether a checkpoint whose model_type is 'bert' is a JinaBERT v2. */
export function isJinaBert(type: string, settings: Settings): boolean {
  return type === 'bert' && settings.get(POSITION_KIND) === 'alibi';
}

const roberta: Family = {
  ...bert,
  prefix: 'roberta.',
  config: (s) => ({ ...robertaConfig(s), ...causalOf(s) }),
};

const FAMILIES: Record<string, Family> = {
  // Static embeddings: a table, without layers, positions or norms.
  [STATIC]: {
    prefix: '',
    config: (s) => ({
      vocabSize: s.count('vocab_size', undefined, 1),
      embedDim: s.count('hidden_dim', undefined, 2, MAX_WIDTH),
      numHeads: 1,
      keyValueHeads: 1,
      headDim: 2,
      numLayers: 0,
      feedForwardDim: 1,
      maxPositions: 2 ** 16,
      positions: 'rotary',
      rotaryDim: 2,
      embeddingNorm: false,
    }),
    modules: { embedding: 'embeddings.word.' },
    layerPrefix: '',
    layer: {},
  },

  bert,
  roberta,
  'xlm-roberta': roberta,
  camembert: roberta,
};

/** The families that encode images. */
export const IMAGE_FAMILIES = ['clip', 'siglip', 'vit', 'dinov2', 'dinov2_with_registers', 'dinov3_vit'] as const;
export type ImageFamilyName = (typeof IMAGE_FAMILIES)[number];

/** The `model_type` of the families that encode only texts. */
export const textFamilies: readonly string[] = [
  ...Object.keys(FAMILIES),
  ...BERT_LIKE_FAMILIES,
  ...ROTARY_FAMILIES,
  ...T5_FAMILIES,
];

export interface FamilyConfig {
  type: string;
  family: Family;
  config: RawEncoderModelConfig;
  /** The settings of a GLiNER, for its encoder. */
  gliner?: GlinerConfig | undefined;
  /** See Family. */
  replacedTokens?: ReadonlyMap<number, number> | undefined;
}

/** The key of config.json that names the family. */
export const TYPE = 'model_type';

const rotaryFile = () => importing('rotary-families', () => import('./rotary-families.js'));
const bertLikeFile = () => importing('bert-like-families', () => import('./bert-like-families.js'));
const t5File = () => importing('t5-families', () => import('./t5-families.js'));

/** Returns the family of a configuration, like `familyOf`, but only for families that encode only texts. */
export async function textFamilyOf(settings: Settings): Promise<FamilyConfig> {
  const given = settings.get(TYPE);
  // Jina v3 as it is published, whose model_type is XLM-RoBERTa's.
  const type = given === 'xlm-roberta' && settings.get(POSITION_KIND) === 'rotary' ? 'jina_embeddings_v3' : given;
  const rotary = ROTARY_FAMILIES.find((name) => name === type);
  if (rotary) return configured(rotary, (await rotaryFile()).rotaryFamilies[rotary], settings);
  const like = BERT_LIKE_FAMILIES.find((name) => name === type);
  if (like) return configured(like, (await bertLikeFile()).bertLikeFamilies[like], settings);
  const t5 = T5_FAMILIES.find((name) => name === type);
  if (t5) return configured(t5, (await t5File()).t5Families[t5], settings);
  if (typeof type !== 'string' || !Object.hasOwn(FAMILIES, type)) {
    const { missingParts } = await importing('missing-parts', () => import('./missing-parts.js'));
    const missing = typeof type === 'string' ? missingParts.get(type) : undefined;
    if (missing) throw settings.unsupported(TYPE, `a family that heed has, not one with ${missing}`, `'${type}'`);
    const known = [...textFamilies, ...IMAGE_FAMILIES];
    throw settings.unsupported(TYPE, `one of ${known.join(', ')}${nearestHint(type, known)}`, JSON.stringify(type));
  }
  if (isJinaBert(type, settings)) return configured(type, (await bertLikeFile()).jinaBertOf(settings), settings);
  return configured(type, FAMILIES[type]!, settings);
}

function configured(type: string, family: Family, settings: Settings): FamilyConfig {
  const config = { ...DEFAULTS, ...family.config(settings) };
  return { type, family, config, replacedTokens: family.replacedTokens?.(settings) };
}

/** The rows of a parameter that each tensor of the encoder fills, by the tensor's name without the family's prefix. */
export function parameterRowsOf(family: Family, config: RawEncoderModelConfig): Map<string, ParameterRows> {
  const rows = new Map<string, ParameterRows>();
  addRows(rows, family, config, '');
  if (family.vision) addRows(rows, family.vision, family.vision.config, VISION);
  return rows;
}

/** Adds the rows of an encoder, whose parameters' names begin with `encoder`. */
function addRows(
  rows: Map<string, ParameterRows>,
  { modules, tensors = {}, layerPrefix, layer, layerTensors = {}, layerBias }: EncoderNames,
  config: RawEncoderModelConfig,
  encoder: string,
): void {
  const add = (
    modules: Record<string, CoreName>,
    tensors: Record<string, string>,
    prefix: string,
    below: string,
    own = config,
  ) => {
    for (const [tensor, parameter] of Object.entries(tensors))
      rows.set(prefix + tensor, { parameter: below + parameter, firstRow: 0 });
    for (const [module, core] of Object.entries(modules)) {
      for (const part of ['weight', 'bias'] as const) {
        const { name, firstRow } = typeof core === 'string' ? { name: core, firstRow: 0 } : core(own, part);
        rows.set(`${prefix}${module}.${part}`, { parameter: `${below}${name}${part}`, firstRow });
      }
    }
  };
  add(modules, tensors, '', encoder);
  const layers = config.sharedLayers ? Math.min(1, config.numLayers) : config.numLayers;
  for (let i = 0; i < layers; i++) {
    for (const each of [layerPrefix].flat()) {
      const prefix = each.replace('{i}', String(i));
      add(layer, layerTensors, prefix, `${encoder}layers.${i}.`, layerConfig(config, i));
      if (!layerBias) continue;
      const firstRow = i * config.relativeBuckets!;
      rows.set(`${prefix}${layerBias}.weight`, { parameter: `${encoder}relative_attention_bias.weight`, firstRow });
    }
  }
}
