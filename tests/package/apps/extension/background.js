import * as heed from './node_modules/heed/dist/index.js';
import { report } from './smoke.js';

// Extensions' service workers have no Worker.
globalThis.run = () => report(heed, { worker: false });
