/** Functions that list and remove cached models. */
import { importing } from '../base/error.js';
import type { UrlLike } from '../base/platform.js';
import type { CachedModel, CacheOptions } from './cached-models.js';

const cachedModels = () => importing('cached-models', () => import('./cached-models.js'));

/**
 * Lists the models in the cache: that of the page's origin or, in Node, of the user.
 *
 * @example
 * for (const { source, bytes } of await listCache()) console.log(source, bytes);
 * @throws HeedError `INVALID_ARGUMENT` for invalid options
 */
export async function listCache(options?: CacheOptions): Promise<CachedModel[]> {
  return (await cachedModels()).listCache(options);
}

/**
 * Removes a model's files from the cache, or those of all models if `source` is omitted. Loaded models are not
 * affected. Resolves to the number of bytes removed.
 *
 * @example
 * await clearCache('org/name'); // or its folder's URL; without a source, all models
 * @throws HeedError `INVALID_ARGUMENT` for invalid options
 */
export async function clearCache(source?: string | UrlLike, options?: CacheOptions): Promise<number> {
  return (await cachedModels()).clearCache(source, options);
}
