import * as heed from 'heed';
import { report } from './smoke.js';

// A worker of the page's own has no need of another one.
report(heed, { worker: false }).then(postMessage);
