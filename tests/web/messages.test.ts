/** Causes each of the messages that docs/troubleshooting.md explains. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load, pipeline } from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { run } from './cli/support.js';
import { tinyModel } from './models/tiny.js';

const page = readFileSync(new URL('../../docs/troubleshooting.md', import.meta.url), 'utf8');
const documented = [...page.matchAll(/^\| `(.+?)` \|/gm)].map(([, message]) => message!);
const [library, commandLine] = [documented.slice(0, 16), documented.slice(16)];

let folder: string;
const path = (name: string) => join(folder, name);
const heed = await load();

/** A folder with weights in another format than safetensors. */
function folderWith(name: string): string {
  const target = path(`with-${name.replace('/', '-')}`);
  for (const [file, content] of Object.entries({ ...tinyModel(), [name]: 'weights' })) {
    if (file.endsWith('.safetensors')) continue;
    mkdirSync(join(target, file, '..'), { recursive: true });
    writeFileSync(join(target, file), content);
  }
  return target;
}

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'heed-messages-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
  heed.dispose();
});

const index = () =>
  heed.TextIndex.of(
    ['north', 'east'],
    [
      [0, 1],
      [1, 0],
    ],
  );

/** Calls with a global function replaced, by what browsers do under a content security policy. */
async function withGlobal<K extends string>(
  target: { [name in K]: unknown },
  name: K,
  value: unknown,
  call: () => unknown,
) {
  const original = target[name];
  target[name] = value;
  try {
    return await call();
  } finally {
    target[name] = original;
  }
}
const refusal = 'violates the following Content Security Policy directive: "script-src \'self\'"';
const compile = () => Promise.reject(new WebAssembly.CompileError(refusal));
const fetch = () => Promise.reject(new TypeError('Failed to fetch'));
/** A worker whose script the browser does not load. */
class BlockedWorker extends EventTarget {
  postMessage() {
    queueMicrotask(() => this.dispatchEvent(new Event('error')));
  }
  terminate() {}
}

const mha = () => new heed.MultiHeadAttention({ embedDim: 2, numHeads: 1 });
const causes: (() => unknown)[] = [
  async () => (await pipeline('text-classification'))('a'),
  async () => (await pipeline('zero-shot-classification'))('a', ['b']),
  () => heed.fromPretrained(folderWith('pytorch_model.bin')),
  () => heed.fromPretrained('all-MiniLM-L6-v2'),
  () => heed.fromPretrained('org/name'),
  () => heed.fromPretrained(null as never),
  () =>
    index().search([
      [0, 1],
      [1, 0],
    ]),
  () => index().search([0, 1, 0]),
  async () => (await pipeline('text-classification', tinyModel()))('a', { topk: 2 } as object),
  () =>
    mha().forward(
      [
        [1, 2],
        [3, 4],
      ],
      {
        mask: [
          [true, Number.NEGATIVE_INFINITY],
          [true, true],
        ],
      },
    ),
  () => heed.fromPretrained(tinyModel(), { device: 'webgpu' }),
  async () =>
    (await load({ gpu: { requestAdapter: async () => null } })).fromPretrained(tinyModel(), { device: 'webgpu' }),
  () => {
    const wasm = new Uint8Array(readFileSync(new URL('../../dist/heed-simd128.wasm', import.meta.url)));
    return withGlobal(WebAssembly, 'compile', compile, () => load({ wasm, build: 'simd128' }));
  },
  () => withGlobal(globalThis, 'fetch', fetch, () => load({ wasm: 'https://example.com/heed.wasm' })),
  () => heed.fromPretrained(tinyModel(), { worker: new BlockedWorker() as unknown as Worker }),
  async () => (await heed.fromPretrained(tinyModel())).embed([`${'a '.repeat(60)}`], { truncation: false }),
];

describe('the library', () => {
  test('every message has a cause here', () => expect(library).toHaveLength(causes.length));

  test.each(library.map((message, n) => [message, causes[n]!] as const))('%s', async (message, cause) => {
    const error = await Promise.resolve()
      .then(cause)
      .then(
        () => new Error('no error'),
        (error: Error) => error,
      );
    expect(error.message).toContain(message);
  });

  test('pipelines take null for the model in the package, as in transformers.js', async () => {
    using extract = await pipeline('feature-extraction', null);
    expect((await extract('a fox', { pooling: 'mean' })).dims[0]).toBe(1);
  });
});

describe('the command line', () => {
  const write = (name: string, content: string | Buffer) => {
    writeFileSync(path(name), content);
    return path(name);
  };
  const lines: (() => string[])[] = [
    () => ['embed', write('a.csv', 'n;text\n1;fox\n')],
    () => ['embed', write('b.csv', 'n,body\n1,fox\n')],
    () => ['embed', write('c.csv', Buffer.from('text\nd\xe9j\xe0\n', 'latin1'))],
    () => ['search', 'fox', '--index', write('i.safetensors', '')],
  ];

  test.each(commandLine.map((message, n) => [message, lines[n]!] as const))('%s', async (message, args) => {
    const list = args();
    if (list.includes('--index')) {
      using model = await heed.fromPretrained(tinyModel());
      using other = await heed.TextIndex.of(model, ['a']);
      write('i.safetensors', Buffer.from(await other.save()));
    }
    expect((await run(list)).err).toContain(message);
  });

  test.each<[string[], RegExp]>([
    [
      ['classify', 'FILE'],
      /Name a model that was trained for this task with --model, or train one with `heed train`\n$/,
    ],
    [
      ['embed', 'FILE', '--model', 'org/name'],
      /^heed: model: expected .* give its host with --remote-host or in .*HF_ENDPOINT/,
    ],
    [['embed', 'FILE', '--model', 'name'], /The id of a model of the Hub has two parts/],
  ])('%j is told options of the command line', async (args, message) => {
    const file = write('a.txt', 'fox\n');
    const { err } = await run(args.map((arg) => (arg === 'FILE' ? file : arg)));
    expect(err).toMatch(message);
    expect(err).not.toContain('remoteHost');
  });
});
