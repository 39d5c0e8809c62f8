/**
 * The entry `heed` for pages without a bundler, as one file (heed.min.js). It includes the parts that `heed` imports on
 * demand but most pages use. The others are in heed.min-parts.js, which is loaded when one of them is used.
 */
import { linked, others } from './base/error.js';
import { callParts } from './call-parts.js';
import { firstParts } from './first-parts.js';

Object.assign(linked, firstParts, callParts);
others.link = () => import(new URL('./heed.min-parts.js', import.meta.url).href);

export * from './index.js';
