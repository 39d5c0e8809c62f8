/** Chooses the family of a model that embeds images. */
import type { Settings } from '../io/settings.js';
import type { FamilyConfig, ImageFamilyName } from '../models/families/families.js';
import { ImageCalls } from './calls.js';
import { ImageTextEncoder, preprocessingIn } from './image-model.js';
import { imageText } from './image-text-families.js';
import type { Described } from './vision-config.js';
import { dinov2, dinov3, vit } from './vision-families.js';

const FAMILIES: Record<ImageFamilyName, (settings: Settings) => Described> = {
  clip: (settings) => imageText('clip', settings),
  siglip: (settings) => imageText('siglip', settings),
  vit,
  dinov2: (settings) => dinov2('dinov2', settings),
  dinov2_with_registers: (settings) => dinov2('dinov2_with_registers', settings),
  dinov3_vit: dinov3,
};

/**
 * The family of a config.json, with the options of its text encoder or, for ViT and DINO, which have none, the sizes of
 * its image encoder.
 */
export function imageFamily(type: ImageFamilyName, settings: Settings): FamilyConfig {
  const { family, config, about } = FAMILIES[type](settings);
  return {
    type,
    family: {
      ...family,
      pooling: about.pooling,
      preprocessing: (...where) => preprocessingIn(type, ...where),
      images(core, make) {
        const encoder = new ImageTextEncoder(core, about, config, make);
        encoder.images = new ImageCalls(encoder);
        return encoder;
      },
    },
    config,
  };
}
