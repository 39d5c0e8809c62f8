/** The code for builds with threads, imported on demand. */
import create from 'heed-glue/threads';
import type { Threaded } from './module.js';
import { Threads } from './threads.js';

/** @internal */
export const threaded: Threaded = { create, startThreads: Threads.start };
