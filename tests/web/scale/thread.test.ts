/** Calls of a thread that ends. */
import { EventEmitter } from 'node:events';
import { expect, test, vi } from 'vitest';
import type { Manifest } from '../../../web/src/scale/manifest.js';
import { EmbeddingThread } from '../../../web/src/scale/thread.js';

const workers: EventEmitter[] = [];
vi.mock('node:worker_threads', () => ({
  Worker: class extends EventEmitter {
    constructor() {
      super();
      workers.push(this);
    }
    postMessage() {}
  },
}));

test.each<[string, unknown, string]>([
  ['error', new Error('out of memory'), 'it failed (out of memory)'],
  ['exit', 1, 'it ended (exit code 1)'],
])('calls fail with the reason, also those after its end: %s', async (event, cause, reason) => {
  const thread = new EmbeddingThread({ folder: '', model: undefined, database: null }, {} as Manifest);
  const worker = workers.at(-1)!;
  const ready = thread.ready();
  worker.emit('message', { type: 'ready' });
  await ready;
  worker.emit(event, cause); // while no call is pending
  worker.emit('exit', 1);
  const failed = { code: 'WORKER_FAILED', message: `worker thread: ${reason}` };
  await expect(thread.embed(0, () => {})).rejects.toMatchObject(failed);
});
