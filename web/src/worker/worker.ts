/** The worker's script, in browsers and in Node's worker_threads. */
import { nodeModule } from '../platform.js';
import { makeHandler } from './handler.js';
import type { Request } from './protocol.js';

interface Port {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
  addEventListener(type: 'message' | 'messageerror', listener: (event: { data: Request }) => void): void;
}

/** Uncaught on purpose: the page hears of it as the worker's failure. It cannot be told which request was lost. */
function onUnreadable(): never {
  throw new Error('a message from the page could not be read');
}

const nodePort = nodeModule<typeof import('node:worker_threads')>('worker_threads')?.parentPort;
if (nodePort) {
  nodePort.on(
    'message',
    makeHandler((answer, transfer) => nodePort.postMessage(answer, transfer)),
  );
  nodePort.on('messageerror', onUnreadable);
} else {
  const port = globalThis as unknown as Port;
  const handle = makeHandler((answer, transfer) => port.postMessage(answer, transfer));
  port.addEventListener('message', ({ data }) => handle(data));
  port.addEventListener('messageerror', onUnreadable);
}
