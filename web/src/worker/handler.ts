/** The worker's side: one model, and the calls on it that are under way. */

import type { ModelFolder, OpenFile, OpenOptions } from '../io/files.js';
import type { PretrainedModel } from '../models/model.js';
import { loadPretrained } from '../models/pretrained.js';
import { instantiate, locate } from '../module.js';
import { type Answer, type FileRequest, packError, type Request, unpackError } from './protocol.js';

/** Answers requests by `post`. */
export function makeHandler(post: (answer: Answer, transfer: ArrayBuffer[]) => void): (request: Request) => void {
  let model: PretrainedModel | undefined;
  const running = new Map<number, AbortController>();
  /** Requests for files that the page has not answered yet. */
  const asked = new Map<number, { resolve(value: unknown): void; reject(error: unknown): void }>();
  let nextId = 0;

  function ask(request: FileRequest): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const id = nextId++;
      asked.set(id, { resolve, reject });
      post({ type: 'file', id, request }, []);
    });
  }

  /** The folder whose files the page serves. */
  function servedFolder(): ModelFolder {
    const opened = new Map<string, number>();
    const open = async (path: string, { required = false }: OpenOptions): Promise<OpenFile | null> => {
      const nth = opened.get(path) ?? 0;
      opened.set(path, nth + 1);
      const file = (await ask({ path, nth, required })) as Omit<OpenFile, 'chunks'> | null;
      return file && { ...file, chunks: () => chunksOf({ path, nth, required }) };
    };
    return { label: 'source', open: open as ModelFolder['open'] };
  }

  async function* chunksOf(file: FileRequest): AsyncIterable<Uint8Array> {
    for (let chunk = 0; ; chunk++) {
      const bytes = (await ask({ ...file, chunk })) as Uint8Array | null;
      if (bytes === null) return;
      yield bytes;
    }
  }

  async function answer(request: Extract<Request, { progress: boolean }>): Promise<unknown> {
    const { id } = request;
    const { signal } = running.get(id)!;
    const options = {
      ...request.options,
      signal,
      ...(request.progress && { onProgress: (progress: unknown) => post({ type: 'progress', id, progress }, []) }),
    };
    if (request.type === 'load') {
      // Not through the runtime, which can start workers itself: a worker's script that refers to itself sends Turbopack in circles.
      const core = await instantiate('simd128', locate(request.wasm, 'wasm')); // whichever build it is, it is given
      const folder = request.source === null ? servedFolder() : undefined;
      model = await loadPretrained({ core, owned: new Set() }, request.source ?? '', options, folder);
      return { config: model.config };
    }
    const method = model![request.method] as (...args: unknown[]) => Promise<unknown>;
    return method.call(model, ...request.args, ...(request.options ? [options] : []));
  }

  return (request) => {
    const id = request?.id;
    if (request?.type === 'abort') running.get(id)?.abort();
    else if (request?.type === 'file') {
      const waiting = asked.get(id);
      asked.delete(id);
      if (request.error) waiting?.reject(unpackError(request.error));
      else waiting?.resolve(request.value);
    }
    // Messages of other kinds are for other scripts in the same worker.
    if (request?.type !== 'load' && request?.type !== 'call') return;
    running.set(id, new AbortController());
    answer(request)
      .then((value) => post({ type: 'result', id, value }, buffersOf(value)))
      // Also where the result cannot be sent: the page waits for an answer.
      .catch((error) => post({ type: 'error', id, error: packError(error) }, []))
      .finally(() => running.delete(id));
  };
}

/** The buffers of the tensors in a result: they move to the page rather than being copied. */
function buffersOf(value: unknown): ArrayBuffer[] {
  if (typeof value !== 'object' || value === null) return [];
  if (ArrayBuffer.isView(value)) return [value.buffer as ArrayBuffer];
  if (Array.isArray(value))
    return typeof value[0] === 'object' && value[0] !== null && 'data' in value[0] ? value.flatMap(buffersOf) : [];
  return Object.values(value).flatMap(buffersOf);
}
