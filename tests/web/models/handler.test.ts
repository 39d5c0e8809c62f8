/** The worker's end of the protocol. */
import { readFileSync } from 'node:fs';
import create from 'heed-glue/inference';
import { expect, test, vi } from 'vitest';
import { HeedError } from '../../../web/src/base/error.js';
import { makeHandler } from '../../../web/src/worker/handler.js';
import { loadStore } from '../../../web/src/worker/port.js';
import { type Message, packError, unpackError } from '../../../web/src/worker/protocol.js';
import { tinyModel } from './tiny.js';

const WAIT = { timeout: 120_000 }; // on a busy machine

test('a result that cannot be sent is answered with an error', async () => {
  const wasm = await WebAssembly.compile(readFileSync(new URL('../../../dist/heed-simd128.wasm', import.meta.url)));
  const answers: Message[] = [];
  let refuses = false;
  const post = (answer: Message) => {
    if (answer.type === 'result' && refuses) throw new DOMException('no clone of it', 'DataCloneError');
    answers.push(answer);
  };
  const handle = makeHandler({ create, loadThreaded: null }, post, loadStore);
  handle({ type: 'call', id: 0, method: 'load', args: [tinyModel(), wasm, 1, ''], options: {}, progress: false });
  await vi.waitFor(() => expect(answers).toHaveLength(1), WAIT);
  expect(answers[0]).toMatchObject({ type: 'result', id: 0 });
  refuses = true;
  handle({ type: 'call', id: 1, method: 'embed', args: ['a'], options: {}, progress: false });
  await vi.waitFor(() => expect(answers).toHaveLength(2), WAIT);
  expect(answers[1]).toMatchObject({
    type: 'error',
    id: 1,
    error: { code: 'INTERNAL', message: expect.stringContaining('no clone of it') },
  });
});

test('errors are the same after a structured clone', () => {
  const root = new RangeError('root');
  const middle = new HeedError('NETWORK', 'middle', { cause: root });
  const cross = (error: unknown) => unpackError(structuredClone(packError(error))) as HeedError;
  const top = cross(new HeedError('NOT_FOUND', 'top', { cause: middle }));
  expect(top).toBeInstanceOf(HeedError);
  expect(top).toMatchObject({ name: 'HeedError', code: 'NOT_FOUND', message: 'top' });
  expect(top.cause).toBeInstanceOf(HeedError);
  expect(top.cause).toMatchObject({ code: 'NETWORK', message: 'middle', stack: middle.stack });
  expect((top.cause as Error).cause).toMatchObject({ name: 'RangeError', message: 'root', stack: root.stack });

  // Other errors become the cause of a HeedError. Causes may be any value.
  const foreign = cross(root);
  expect(foreign).toMatchObject({
    code: 'INTERNAL',
    message: 'worker: RangeError: root',
    cause: { name: 'RangeError' },
  });
  expect(cross(new HeedError('INTERNAL', 'x', { cause: 'text' })).cause).toBe('text');
  expect(cross(new HeedError('INTERNAL', 'x', { cause: () => 1 })).cause).toBe('a function');
  expect(cross(new HeedError('INTERNAL', 'x', { cause: null })).cause).toBe('null');
  const cycle = new Error('cycle');
  cycle.cause = cycle;
  expect(cross(cycle).message).toBe('worker: Error: cycle');
});
