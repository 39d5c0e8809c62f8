/** What builds with threads need, in a script that is loaded when they are used. */
import create from 'heed-glue/threads';
import type { Threaded } from './module.js';
import { Threads } from './threads.js';

/** @internal */
export const threaded: Threaded = { create, startThreads: Threads.start };
