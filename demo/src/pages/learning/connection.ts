/** The page's end of the worker that trains. */
import { effect } from '@preact/signals';
import type { Failure } from '../../engine/failure';
import { build, failure, savesData, shipped } from '../../engine/heed';
import type { Role, WorkerCommand, WorkerReport } from '../../engine/learning/learning-handler';
import { keepForOffline } from '../../offline/offline';

export interface Connection {
  send(command: WorkerCommand): void;
}

/** Fulfilled when the page has opened the bundled model, or will not open it. */
const pageHasModel = new Promise<void>((resolve) => {
  effect(() => {
    if (savesData || shipped.value || failure.value) resolve();
  });
});

/** Starts a worker. `failed` is called if it cannot start or stops working; it has been ended then. */
export function connect(
  role: Role,
  receive: (report: WorkerReport) => void,
  failed: (reason: Failure) => void,
): Connection {
  const worker = new Worker(new URL('../../engine/learning/learning-worker.ts', import.meta.url), { type: 'module' });
  const end = (reason: Failure) => {
    worker.terminate();
    failed(reason);
  };
  worker.onmessage = ({ data }: MessageEvent<WorkerReport>) => {
    if (data.type === 'unavailable') end(data.failure);
    else {
      if (data.type === 'ready') void keepForOffline(data.fetched);
      receive(data);
    }
  };
  worker.onerror = (event) => {
    event.preventDefault();
    end({ message: event.message || 'The script of the worker could not be loaded.' });
  };
  // The teacher reads the model from the browser's cache after the page has downloaded it. In private windows, whose cache
  // holds no file of this size, one of two simultaneous downloads would fail.
  const mayStart = role === 'teacher' ? pageHasModel : Promise.resolve();
  const connection: Connection = { send: (command) => void mayStart.then(() => worker.postMessage(command)) };
  connection.send({ type: 'start', role, build: build.peek() });
  return connection;
}
