/** The family of a model's folder. Those that encode images are loaded when config.json names one. */
import { importing } from '../../base/error.js';
import type { Settings } from '../../io/settings.js';
import { GLINER_CONFIG } from '../model-files.js';
import { type FamilyConfig, IMAGE_FAMILIES, TYPE, textFamilyOf } from './families.js';

/** The family that the settings' model_type names, and the core's options for the model; if the family encodes texts and images, for the encoder of texts. */
export async function familyOf(settings: Settings): Promise<FamilyConfig> {
  if (settings.file.endsWith(GLINER_CONFIG)) {
    const { GlinerConfig } = await importing('gliner-config', () => import('./gliner-config.js'));
    const gliner = new GlinerConfig(settings);
    const found = textFamilyOf(gliner.encoder);
    return { ...found, family: gliner.family(found.family), gliner };
  }
  const type = IMAGE_FAMILIES.find((name) => name === settings.get(TYPE));
  if (!type) return textFamilyOf(settings);
  // biome-ignore lint/style/noRestrictedImports: images/ builds on models/; it is loaded here alone
  const { imageFamily } = await importing('images', () => import('../../images/image-families.js'));
  return imageFamily(type, settings);
}
