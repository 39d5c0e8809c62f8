/** The worker's side: one model, and the calls on it that are under way. */

import type { PretrainedModel } from '../models/model.js';
import { loadPretrained } from '../models/pretrained.js';
import { instantiate } from '../module.js';
import { type Answer, packError, type Request } from './protocol.js';

/** Answers requests by `post`. */
export function makeHandler(post: (answer: Answer, transfer: ArrayBuffer[]) => void): (request: Request) => void {
  let model: PretrainedModel | undefined;
  const running = new Map<number, AbortController>();

  async function answer(request: Exclude<Request, { type: 'abort' }>): Promise<unknown> {
    const { id } = request;
    const { signal } = running.get(id)!;
    const options = {
      ...request.options,
      signal,
      ...(request.progress && { onProgress: (progress: unknown) => post({ type: 'progress', id, progress }, []) }),
    };
    if (request.type === 'load') {
      // Not through the runtime, which can start workers itself: a worker's script that refers to itself sends Turbopack in circles.
      const core = await instantiate('simd128', request.wasm); // whichever build it is, it is given
      model = await loadPretrained({ core, owned: new Set() }, request.source, options);
      return { config: model.config };
    }
    const method = model![request.method] as (...args: unknown[]) => Promise<unknown>;
    return method.call(model, ...request.args, ...(request.options ? [options] : []));
  }

  return (request) => {
    if (request.type === 'abort') {
      running.get(request.id)?.abort();
      return;
    }
    const { id } = request;
    running.set(id, new AbortController());
    answer(request)
      .then(
        (value) => post({ type: 'result', id, value }, buffersOf(value)),
        (error) => post({ type: 'error', id, error: packError(error) }, []),
      )
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
