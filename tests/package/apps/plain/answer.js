import * as heed from './node_modules/heed/dist/index.js';
import { report } from './smoke.js';

addEventListener('message', async ({ ports }) => ports[0].postMessage(await report(heed, { worker: false })));
