/** Finds the family of a model's folder. Families that encode images are imported on demand. */
import { importing } from '../base/error.js';
import type { Settings } from '../io/settings.js';
import { type FamilyConfig, IMAGE_FAMILIES, TYPE, textFamilyOf } from '../models/families/families.js';
import { GLINER_CONFIG } from '../models/model-files.js';

/**
 * The family with the settings' model_type, and the options for the model. If the family encodes texts and images, they
 * are those of the text encoder.
 */
export async function familyOf(settings: Settings): Promise<FamilyConfig> {
  if (settings.file.endsWith(GLINER_CONFIG)) {
    const { GlinerConfig } = await importing('gliner-config', () => import('../models/families/gliner-config.js'));
    const gliner = new GlinerConfig(settings);
    const found = await textFamilyOf(gliner.encoder);
    return { ...found, family: gliner.family(found.family), gliner };
  }
  const perLayer = settings.get(TYPE) === 'embedding_gemma2_text' ? undefined : settings.record('per_layer_config');
  const layers = perLayer?.names() ?? [];
  if (layers.length > 0) {
    const expected = '{}: the same settings for all layers';
    throw settings.unsupported('per_layer_config', expected, `settings of layers ${layers.join(', ')}`);
  }
  const type = IMAGE_FAMILIES.find((name) => name === settings.get(TYPE));
  if (!type) return textFamilyOf(settings);
  const { imageFamily } = await importing('images', () => import('../images/image-families.js'));
  return imageFamily(type, settings);
}
