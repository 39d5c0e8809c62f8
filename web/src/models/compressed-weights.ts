/** Opens quantized weights of other programs that have to be converted. */
import { importing } from '../base/error.js';
import type { Settings } from '../io/settings.js';
import type { CompressedOptions, CompressedTensors } from './compressed-tensors.js';
import { mayBeConverted } from './families/quantization.js';

/**
 * Returns a function that makes readers of the weights that config.json describes; null if they are read as they are.
 * @throws HeedError UNSUPPORTED, INVALID_FILE
 */
export async function openCompressedWeights(
  settings: Settings,
): Promise<((options: CompressedOptions) => CompressedTensors) | null> {
  if (!mayBeConverted(settings)) return null;
  const { openCompressed } = await importing('compressed-tensors', () => import('./compressed-tensors.js'));
  return openCompressed(settings);
}
