/**
 * The parts that ordinary text models import on demand, for some calls, linked statically: in worker.js and heed.min.js, whose
 * other parts are one large script.
 */
import { sha256 } from './io/sha256.js';
import { embedSparse } from './models/heads/embed-sparse.js';
import { predict } from './models/heads/predict.js';

export const callParts = {
  'embed-sparse': { embedSparse } satisfies typeof import('./models/heads/embed-sparse.js'),
  predict: { predict } satisfies typeof import('./models/heads/predict.js'),
  sha256: { sha256 } satisfies Pick<typeof import('./io/sha256.js'), 'sha256'>,
};
