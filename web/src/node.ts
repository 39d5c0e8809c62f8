/** The former name of `heed/corpus`. It has the same exports, so that importing one of them reaches the error. */
import { invalid } from './base/error.js';

export * from './corpus.js';

throw invalid('heed/node', "'heed/corpus', the present name of this entry", "'heed/node'", 'UNSUPPORTED');
