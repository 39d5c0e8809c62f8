/** The source that the build divides into heed.min.js, and heed.min-parts.js with the parts that are loaded on demand. */
import './min.js';
import { linked } from './base/error.js';
import { threaded } from './base/wasm/threaded.js';
import { modelParts } from './model-parts.js';
import { pageParts } from './page-parts.js';
import { loadOnGpu } from './worker/gpu-client.js';
import { embedRemotely, encodeRemotely } from './worker/remote-images.js';

Object.assign(linked, modelParts, pageParts, {
  'gpu-client': { loadOnGpu } satisfies typeof import('./worker/gpu-client.js'),
  'remote-images': { embedRemotely, encodeRemotely } satisfies typeof import('./worker/remote-images.js'),
  threaded: { threaded } satisfies typeof import('./base/wasm/threaded.js'),
});
