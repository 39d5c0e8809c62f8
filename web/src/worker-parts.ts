/** The source that the build divides into worker.js, and worker-parts.js with the parts that are loaded on demand. */
import './worker/worker.js';
import { linked } from './base/error.js';
import { create } from './base/wasm/threads-glue.js';
import { modelParts } from './model-parts.js';
import { callStore } from './worker/worker-store.js';

Object.assign(linked, modelParts, {
  'threads-glue': { create } satisfies typeof import('./base/wasm/threads-glue.js'),
  'worker-store': { callStore } satisfies Pick<typeof import('./worker/worker-store.js'), 'callStore'>,
});
