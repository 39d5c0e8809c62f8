import * as heed from './node_modules/heed/dist/index.js';
import { report } from './smoke.js';

report(heed);
