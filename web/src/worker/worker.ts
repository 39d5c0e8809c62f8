/** The worker's script, in browsers and in Node's worker_threads. */
import { nodeModule } from '../platform.js';
import { makeHandler } from './handler.js';
import type { Request } from './protocol.js';

interface Port {
  postMessage(message: unknown, transfer: ArrayBuffer[]): void;
}

const nodePort = nodeModule<typeof import('node:worker_threads')>('worker_threads')?.parentPort;
if (nodePort) {
  nodePort.on(
    'message',
    makeHandler((answer, transfer) => nodePort.postMessage(answer, transfer)),
  );
} else {
  const port = globalThis as unknown as Port & { onmessage: (event: { data: Request }) => void };
  const handle = makeHandler((answer, transfer) => port.postMessage(answer, transfer));
  port.onmessage = ({ data }) => handle(data);
}
