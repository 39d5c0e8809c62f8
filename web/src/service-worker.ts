/**
 * The entry `heed` for service workers, which must not import scripts after installation: everything that pages import
 * on demand is linked statically, except for what a model in a worker loads for a GPU. Workers are linked for their
 * errors: a service worker cannot start any.
 */
import { linked } from './base/error.js';
import { callParts } from './call-parts.js';
import { firstParts } from './first-parts.js';
import { modelParts } from './model-parts.js';
import { pageParts } from './page-parts.js';

Object.assign(linked, firstParts, callParts, modelParts, pageParts);

export * from './index.js';
