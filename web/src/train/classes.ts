/** The layer classes of heed/train by their names, not yet bound to a runtime. */
import { layers } from '../layers/classes.js';
import { Embedding } from './embedding.js';

export const trainableLayers = { ...layers, Embedding };
