import * as heed from './node_modules/heed/dist/index.js';
import { report } from './smoke.js';

// Documents with an opaque origin cannot create workers.
parent.postMessage(await report(heed, { worker: false }), '*');
