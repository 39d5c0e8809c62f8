/**
 * The script of the worker. It imports the rest when it runs, so that bundlers put nothing into it that other scripts import: WebKit evaluates a worker's script a second time if a
 * module imports it.
 */
import type { WorkerCommand, WorkerReport } from './learning-handler';

const handler = import('./learning-handler');
handler.catch((reason: unknown) => {
  postMessage({ type: 'unavailable', failure: { message: String(reason) } } satisfies WorkerReport);
});

addEventListener('message', ({ data }: MessageEvent<WorkerCommand>) => {
  handler.then(
    ({ handle }) => handle(data),
    () => {}, // reported above
  );
});
