/** The code for builds with threads, imported on demand. */
import type { Threaded } from './module.js';
import { Threads } from './threads.js';
import { create } from './threads-glue.js';

/** @internal */
export const threaded: Threaded = { create, startThreads: Threads.start };
