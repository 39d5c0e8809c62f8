import * as heed from './node_modules/heed/dist/index.js';
import { report } from './smoke.js';

// Service workers of extensions cannot create workers.
globalThis.run = () => report(heed, { worker: false });
