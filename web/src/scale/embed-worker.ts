/** Script of an embedding thread: loads the plan's model, then embeds one chunk per message. */
import { parentPort, workerData } from 'node:worker_threads';
import { HeedError } from '../index.js';
import { embedChunk } from './chunk.js';
import { VectorTable } from './database.js';
import { requireUnchanged } from './lines.js';
import { openModel, requireSameVectors, withModel } from './machine.js';
import { readManifest } from './manifest.js';
import type { Answer, ThreadData } from './thread.js';

const { folder, suffix, model: path, database } = workerData as ThreadData;
const post = (answer: Answer) => parentPort!.postMessage(answer);

function fail(error: unknown, fatal: boolean): void {
  const { code, message } = error instanceof HeedError ? error : new HeedError('INTERNAL', String(error));
  post({ type: 'failed', code, message, fatal });
}

try {
  const manifest = readManifest(folder);
  const model = await openModel(withModel(manifest, path));
  await requireSameVectors(manifest, model);
  const table = database && (await VectorTable.open(database, manifest));
  const onProgress = (rows: number) => post({ type: 'progress', rows });
  parentPort!.on('message', async (chunk: number) => {
    try {
      requireUnchanged(manifest, manifest.chunks[chunk]!);
    } catch (error) {
      fail(error, false);
      return;
    }
    try {
      const done = await embedChunk(model, manifest, chunk, { folder, suffix, table, onProgress });
      post({ type: 'done', done });
    } catch (error) {
      fail(error, true);
    }
  });
  post({ type: 'ready' });
} catch (error) {
  fail(error, true);
}
