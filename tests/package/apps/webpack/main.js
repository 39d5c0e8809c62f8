import * as heed from 'heed';
import { report } from './smoke.js';

report(heed);
