import * as heed from './node_modules/heed/dist/index.js';
import { report } from './smoke.js';

// Workers cannot be made from an opaque origin, whatever they run.
parent.postMessage(await report(heed, { worker: false }), '*');
