/**
 * The settings and the names of parameters that all encoders of images have in common. Notation: {i} a layer's number.
 */
import type { RawEncoderModelConfig } from '../base/wasm/core.js';
import type { Settings } from '../io/settings.js';
import {
  activation,
  type CoreName,
  DEFAULTS,
  type Family,
  MAX_LAYERS,
  MAX_WIDTH,
  type ParameterRows,
} from '../models/families/family.js';
import type { ImageFamily } from './image-family.js';
import { VISION } from './image-model.js';

/** Hugging Face's default values for settings that config.json leaves out. */
export const shared = { num_hidden_layers: 12, attention_dropout: 0, num_channels: 3, image_size: 224 };
export const BASE = { hidden_size: 768, intermediate_size: 3072, num_attention_heads: 12 };

export interface Described {
  family: Family;
  config: RawEncoderModelConfig;
  about: ImageFamily;
}

/** Encoder options that text and image encoders have in common; both are pre-norm. */
export function sharedConfig(s: Settings) {
  const embedDim = s.count('hidden_size', undefined, 1, MAX_WIDTH);
  const numHeads = s.count('num_attention_heads', undefined, 1, embedDim);
  if (embedDim % numHeads !== 0)
    throw s.wrong('num_attention_heads', `a divisor of hidden_size (${embedDim})`, numHeads);
  return {
    ...DEFAULTS,
    embedDim,
    numHeads,
    keyValueHeads: numHeads,
    headDim: embedDim / numHeads,
    numLayers: s.count('num_hidden_layers', undefined, 1, MAX_LAYERS),
    activation: activation(s, 'hidden_act', 'gelu'),
    eps: s.between('layer_norm_eps', 0, 1),
    normFirst: true,
    embeddingNorm: false,
    finalNorm: true,
  };
}

export const feedForwardOf = (s: Settings) => s.count('intermediate_size', undefined, 1, 4 * MAX_WIDTH);

/** The options of an image encoder, except the width of its feed-forward blocks. */
export function visionConfig(
  s: Settings,
  { classRow, registers = 0 }: { classRow: boolean; registers?: number | undefined },
) {
  const patchSize = s.count('patch_size', undefined, 1, 1024);
  const imageSize = s.count('image_size', undefined, patchSize, 2 ** 14);
  if (s.count('num_channels', 3) !== 3) throw s.unsupported('num_channels', '3', String(s.get('num_channels')));
  const maxPositions = Math.floor(imageSize / patchSize) ** 2 + (classRow ? 1 : 0) + registers;
  return {
    imageSize,
    vision: { ...sharedConfig(s), vocabSize: 0, maxPositions, patchSize, classRow, registers },
  };
}

/** A family's names of modules and tensors, mapped to heed's. */
export interface VisionNames {
  modules: Record<string, CoreName>;
  tensors: Record<string, ParameterRows>;
}

/**
 * The parameter names of an image encoder: those outside the layers (`around`) and those of each layer {i}. `scales`:
 * the LayerScale factors on the outputs of a layer's blocks.
 */
export function visionNames(
  vision: RawEncoderModelConfig,
  around: VisionNames,
  prefix: string,
  layer: Record<string, CoreName>,
  scales: Record<string, string> = {},
): VisionNames {
  const modules: Record<string, CoreName> = {};
  const tensors: Record<string, ParameterRows> = {};
  const add = (names: VisionNames, before: string, below: string) => {
    for (const [name, core] of Object.entries(names.modules)) {
      const at = (part: 'weight' | 'bias') =>
        typeof core === 'string' ? { name: core, firstRow: 0 } : core(vision, part);
      modules[before + name] = (_, part) => ({ ...at(part), name: below + at(part).name });
    }
    for (const [name, { parameter, firstRow }] of Object.entries(names.tensors))
      tensors[before + name] = { parameter: below + parameter, firstRow };
  };
  add(around, '', VISION);
  const factors = Object.entries(scales).map(([name, parameter]) => [name, { parameter, firstRow: 0 }]);
  for (let i = 0; i < vision.numLayers; i++)
    add(
      { modules: layer, tensors: Object.fromEntries(factors) },
      prefix.replace('{i}', String(i)),
      `${VISION}layers.${i}.`,
    );
  return { modules, tensors };
}
