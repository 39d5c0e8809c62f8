/** heed in a service worker, which cannot import scripts later: `heed/service-worker` includes them all. */
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bytesOf, fixtures } from './models/fixtures.js';
import { onnxFile, tensorsOf } from './models/onnx-writer.js';
import { openSite, type Site } from './models/site.js';
import { tinyModel } from './models/tiny.js';

const { 'model.safetensors': weights, ...others } = tinyModel();
const folders: Record<string, Record<string, Uint8Array | string>> = {
  tiny: tinyModel(),
  onnx: { ...others, 'onnx/model.onnx': onnxFile(tensorsOf(weights as Uint8Array)) },
  gliner: bytesOf(`${fixtures}gliner`),
  clip: bytesOf(`${fixtures}clip`),
};
/** The worker's script, which runs the call that is named in a message. */
const script = (entry: string) => `
import * as heed from '/${entry}';
const loaded = heed.load();
const calls = {
  tokenizer: async () => (await heed.loadTokenizer('/models/tiny/', { cache: true })).count('the fox'),
  list: async () => (await heed.listCache()).length,
  clear: async () => heed.clearCache(),
  passages: async () => (await heed.splitPassages(await heed.loadTokenizer('/models/tiny/'), 'the fox. the dog.', { maxTokens: 8 })).length,
  inspect: async () => (await (await loaded).inspect('/models/tiny/')).family,
  embed: async () => [...(await (await (await loaded).fromPretrained('/models/tiny/', { cache: true })).embed('the fox')).data].length,
  tokens: async () => (await (await (await loaded).fromPretrained('/models/tiny/')).embedTokens('the fox')).length,
  paged: async () => (await (await (await loaded).fromPretrained('/models/tiny/', { embeddings: 'paged' })).embed('the fox')).data.length,
  onnx: async () => (await (await (await loaded).fromPretrained('/models/onnx/')).embed('the fox')).data.length,
  quantize: async () => Object.keys((await (await loaded).quantize('/models/tiny/')).files).includes('model.safetensors'),
  prune: async () => (await (await loaded).prune('/models/tiny/', { keep: ['the fox'] })).report.rows.after > 0,
  index: async () => { const { TextIndex } = await loaded; return (await TextIndex.load(await TextIndex.of(['a', 'b'], [[0, 1], [1, 0]]).save())).texts.length; },
  gliner: async () => (await heed.extractEntities(await (await loaded).fromPretrained('/models/gliner/'), 'the fox', ['animal'], { threshold: 0 })).length >= 0,
  images: async () => (await (await loaded).fromPretrained('/models/clip/')).config.hasImageEncoder,
};
addEventListener('install', () => skipWaiting());
addEventListener('activate', (event) => event.waitUntil(clients.claim()));
addEventListener('message', async ({ data, ports }) => {
  try {
    ports[0].postMessage({ value: await calls[data]() });
  } catch (error) {
    ports[0].postMessage({ code: error.code, message: error.message });
  }
});
`;

let site: Site;
let page: Page;
beforeAll(async () => {
  site = await openSite((path, request, response) => {
    if (path === 'worker.js') {
      const entry = new URL(request.url!, 'http://x/').searchParams.get('entry')!;
      response.writeHead(200, { 'content-type': 'text/javascript', 'service-worker-allowed': '/' }).end(script(entry));
      return true;
    }
    const [folder, ...name] = path.split('/');
    const content = folders[folder!]?.[name.join('/')];
    if (content === undefined) return false;
    response.writeHead(200, { etag: '"1"' }).end(Buffer.from(content as Uint8Array));
    return true;
  });
  page = site.page;
});
afterAll(() => site.close());

/** Returns the result of a call in a service worker that imports `entry`. */
const call = (entry: string, name: string) =>
  page.evaluate(
    async ([entry, name]) => {
      const at = await navigator.serviceWorker.register(`/models/worker.js?entry=${entry}`, {
        type: 'module',
        scope: '/',
      });
      const worker = at.installing ?? at.waiting ?? at.active!;
      while (worker.state !== 'activated')
        await new Promise((resolve) => worker.addEventListener('statechange', resolve, { once: true }));
      const { port1, port2 } = new MessageChannel();
      const answer = new Promise<{ value?: unknown; code?: string; message?: string }>((resolve) => {
        port1.onmessage = ({ data }) => resolve(data);
      });
      worker.postMessage(name, [port2]);
      return answer;
    },
    [entry, name] as const,
  );

test.each<[string, unknown]>([
  ['tokenizer', 4],
  ['list', 1],
  ['embed', 24],
  ['clear', expect.any(Number)],
  ['passages', expect.any(Number)],
  ['inspect', 'bert'],
  ['tokens', 1],
  ['paged', 24],
  ['onnx', 24],
  ['quantize', true],
  ['prune', true],
  ['index', 2],
  ['gliner', true],
  ['images', true],
])('%s works', async (name, value) => {
  expect(await call('service-worker.js', name)).toEqual({ value });
});

test.each(['tokenizer', 'list', 'passages', 'inspect', 'gliner'])(
  '%s with the entry for pages: the error says what to import',
  async (name) => {
    expect(await call('index.js', name)).toEqual({
      code: 'LOAD_FAILED',
      message: expect.stringContaining("import from 'heed/service-worker' instead of 'heed'"),
    });
  },
);
