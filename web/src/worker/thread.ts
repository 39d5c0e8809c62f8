/**
 * Script of a shared-memory thread: instantiates the WebAssembly module with the memory of the main instance and runs
 * its thread function, which does not return. Afterwards it cannot answer messages. The thread function never calls
 * JavaScript.
 */
import type { ThreadStart } from '../base/wasm/threads.js';

function run({ module, memory, initialize, main, failed, stack, stackBytes, index }: ThreadStart, ready: () => void) {
  const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {};
  const refuse = () => {
    throw new Error('a thread of heed called JavaScript');
  };
  for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
    imports[from] ??= {};
    imports[from][name] = kind === 'memory' ? memory : refuse;
  }
  const { exports } = new WebAssembly.Instance(module, imports);
  const table = Object.values(exports).find((each) => each instanceof WebAssembly.Table)!;
  const call = (pointer: number, ...args: number[]) => (table.get(pointer) as (...args: number[]) => void)(...args);
  call(initialize, stack, stackBytes);
  ready();
  try {
    call(main, index);
  } catch (error) {
    call(failed); // so that the caller does not wait for this thread
    throw error;
  }
}

interface Port {
  postMessage(message: 'ready'): void;
}

// platform.ts is not imported, because this script must be a single file.
const host = (globalThis as { process?: { getBuiltinModule?(name: string): unknown } | undefined }).process;
const nodePort = (host?.getBuiltinModule?.('node:worker_threads') as typeof import('node:worker_threads'))?.parentPort;
if (nodePort) nodePort.once('message', (start: ThreadStart) => run(start, () => nodePort.postMessage('ready')));
else {
  const port = globalThis as unknown as Port;
  addEventListener('message', ({ data }: MessageEvent<ThreadStart>) => run(data, () => port.postMessage('ready')), {
    once: true,
  });
}
