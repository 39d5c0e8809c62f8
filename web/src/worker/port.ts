/** What the scripts of model workers share besides handler.ts. `listen` receives messages from the thread that started this worker, in browsers and in Node's worker_threads. */
import { importing } from '../base/error.js';
import { nodeModule } from '../base/platform.js';
import type { Message } from './protocol.js';

interface Port {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
  addEventListener(type: 'message' | 'messageerror', listener: (event: { data: Message }) => void): void;
}

/**
 * Imports the module of indexes in this worker. Not in handler.ts, whose chunk pages load, too: Rolldown would keep the imported chunk
 * in a page's own worker, though nothing calls it there, and Vite could not write that worker as an `iife`.
 */
export const loadStore = () => importing('worker-store', () => import('./worker-store.js'));

/** Throws an uncaught error, so that the main thread sees the worker fail: it is unknown which call was lost. */
function onUnreadable(): never {
  throw new Error('a message from the page could not be read');
}

/** Passes messages to the handler that `make` returns, and posts its answers. */
export function listen(
  make: (post: (message: Message, transfer: ArrayBuffer[]) => void) => (message: Message) => void,
): void {
  const nodePort = nodeModule<typeof import('node:worker_threads')>('worker_threads')?.parentPort;
  if (nodePort) {
    nodePort.on(
      'message',
      make((message, transfer) => nodePort.postMessage(message, transfer)),
    );
    nodePort.on('messageerror', onUnreadable);
  } else {
    const port = globalThis as unknown as Port;
    const handle = make((message, transfer) => port.postMessage(message, transfer));
    port.addEventListener('message', ({ data }) => handle(data));
    port.addEventListener('messageerror', onUnreadable);
  }
}
