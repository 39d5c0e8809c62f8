/** The page's end of the worker that trains. */
import type { Failure } from '../../engine/failure';
import { build } from '../../engine/heed';
import type { Role, WorkerCommand, WorkerReport } from '../../engine/learning/learning-handler';

export interface Connection {
  send(command: WorkerCommand): void;
}

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
    else receive(data);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    end({ message: event.message || 'The script of the worker could not be loaded.' });
  };
  const connection: Connection = { send: (command) => worker.postMessage(command) };
  connection.send({ type: 'start', role, build: build.peek() });
  return connection;
}
