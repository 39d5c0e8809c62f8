/** Takes the place of ../threads.ts in heed/train, whose modules have no shared memory (tools/build-web.mjs). */
import type * as threads from '../threads.js';

export const obstacle: typeof threads.obstacle = () => 'heed/train has no builds with threads';
export const sharedMemory: typeof threads.sharedMemory = () => null;
// Not used, as there is always an obstacle.
export const threadModules = {} as typeof threads.threadModules;
export const Threads = {} as typeof threads.Threads;
