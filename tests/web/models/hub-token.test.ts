/** Tokens for models that require a login: which hosts receive them, and errors for denied access. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { load } from 'heed';
import { load as loadTraining } from 'heed/train';
import { afterAll, afterEach, beforeEach, expect, test, vi } from 'vitest';
import { bert, openServer, serving } from './server.js';

const heed = await load();
const hub = await openServer();
const storage = await openServer();
afterAll(() => {
  hub.close();
  storage.close();
});

/** The Authorization header of each request to the hub and to the storage host. */
let sent: { hub: (string | undefined)[]; storage: (string | undefined)[] };
const withToken = 'Bearer hf_secret';
const fileOf = (request: IncomingMessage) => request.url!.replace(/^.*\/main\/|^\/|\?.*$/g, '');
const deny = (response: ServerResponse, status: number, reason?: string) =>
  void response.writeHead(status, reason ? { 'x-error-message': reason } : {}).end();

beforeEach(() => {
  sent = { hub: [], storage: [] };
  const serve = serving(bert);
  // Like hubs, serves small files directly and redirects to another host for large ones.
  hub.answer = (request, response) => {
    sent.hub.push(request.headers.authorization);
    if (request.headers.authorization !== withToken) return deny(response, 401, 'Access to org/model is restricted.');
    const name = fileOf(request);
    if (/safetensors$/.test(name))
      return void response.writeHead(302, { location: `${storage.base}${name}?signed` }).end();
    if (request.url!.startsWith('/org/model/'))
      return void response.writeHead(307, { location: `/new/name/resolve/main/${name}` }).end();
    serve(request, response, name);
  };
  storage.answer = (request, response) => {
    sent.storage.push(request.headers.authorization);
    serve(request, response, fileOf(request));
  };
});
afterEach(() => {
  vi.unstubAllEnvs();
  vi.unstubAllGlobals();
});

const options = () => ({ remoteHost: hub.base, token: 'hf_secret' });

function expectSentToTheHubOnly(): void {
  expect(sent.hub.length).toBeGreaterThan(1);
  expect(new Set(sent.hub)).toEqual(new Set([withToken]));
  expect(sent.storage.length).toBeGreaterThan(0);
  expect(new Set(sent.storage)).toEqual(new Set([undefined]));
}

test.each([
  ['in this thread', {}],
  ['in a worker', { worker: true }],
  ['in a pool', { workers: 2 }],
])('a token is sent to the hub and not to the host that it redirects to: %s', async (_, more) => {
  using model = await heed.fromPretrained('org/model', { ...options(), ...more });
  expect((await model.embed({ inputIds: [[5, 6]] })).shape).toEqual([1, 24]);
  expectSentToTheHubOnly();
});

test('a token is sent to the hub only where the target of a redirect is hidden, as in browsers', async () => {
  const { fetch } = globalThis;
  const redirects: (string | undefined)[] = [];
  vi.stubGlobal('fetch', async (...given: Parameters<typeof fetch>) => {
    const { redirect } = given[1] ?? {};
    redirects.push(redirect);
    const response = await fetch(...given);
    if (redirect !== 'manual' || response.status < 300 || response.status >= 400) return response;
    return Object.defineProperties(Response.error(), { type: { value: 'opaqueredirect' } });
  });
  using model = await heed.fromPretrained('org/model', options());
  expect(model.config.numLayers).toBe(3);
  expectSentToTheHubOnly();
  expect(redirects).toContain('manual'); // engines other than browsers might keep the header
  expect(redirects.at(-1)).toBe('follow');
});

test("a token is sent to the host of a folder's URL, of a packed file's, and by inspect", async () => {
  using model = await heed.fromPretrained(`${hub.base}org/model/resolve/main/`, { token: ' hf_secret\n' });
  expect(model.config.numLayers).toBe(3);
  expectSentToTheHubOnly();
  sent = { hub: [], storage: [] };
  expect(await heed.inspect('org/model', options())).toMatchObject({ problem: null, numLayers: 3 });
  expectSentToTheHubOnly();
});

test('a token is sent with requests for ranges', async () => {
  const file = bert['model.safetensors']!;
  const whole = storage.answer;
  storage.answer = (request, response, name) => {
    const [, from, to] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    if (from === undefined) return whole(request, response, name);
    sent.storage.push(request.headers.authorization);
    const part = file.subarray(Number(from), Number(to) + 1);
    const range = `bytes ${from}-${Number(from) + part.length - 1}/${file.length}`;
    response.writeHead(206, { 'content-range': range, 'content-length': part.length, etag: '"1"' }).end(part);
  };
  using model = await heed.fromPretrained('org/model', { ...options(), embeddings: 'paged' });
  expect((await model.embed({ inputIds: [[5, 6]] })).shape).toEqual([1, 24]);
  expectSentToTheHubOnly();
});

test('a model is saved with the token that it was loaded with', async () => {
  const training = await loadTraining();
  using model = await training.fromPretrained('org/model', options());
  sent = { hub: [], storage: [] };
  expect(Object.keys(await model.save())).toContain('model.safetensors');
  expectSentToTheHubOnly();
});

test('HF_TOKEN is used for models that are given by their hub id, and for no other source', async () => {
  vi.stubEnv('HF_TOKEN', 'hf_secret\n');
  vi.stubEnv('HF_ENDPOINT', hub.base);
  using model = await heed.fromPretrained('org/model');
  expect(model.config.numLayers).toBe(3);
  expectSentToTheHubOnly();
  for (const [source, token] of [
    [`${hub.base}org/model/resolve/main/`, undefined],
    ['org/model', false],
  ] as const) {
    sent = { hub: [], storage: [] };
    await expect(heed.fromPretrained(source, { token })).rejects.toMatchObject({ code: 'NETWORK' });
    expect(new Set(sent.hub)).toEqual(new Set([undefined]));
  }
});

test.each([
  [undefined, 401, '401 Access to org/model is restricted. The host may require a login: give a token as `token`'],
  ['hf_other', 401, 'The host does not accept the token'],
  ['hf_other', 403, "The token's account has no access. A gated model is accessible once its conditions are accepted"],
])('with the token %s and status %s, the message says what to do', async (token, status, hint) => {
  hub.answer = (_, response) => deny(response, status, 'Access to org/model is restricted.');
  const failed = heed.fromPretrained('org/model', { remoteHost: hub.base, token });
  await expect(failed).rejects.toMatchObject({ code: 'NETWORK', message: expect.stringContaining(hint) });
  await expect(failed).rejects.not.toThrow(/hf_other/);
  const inspected = heed.inspect('org/model', { remoteHost: hub.base, token });
  await expect(inspected).rejects.toMatchObject({ code: 'NETWORK', message: expect.stringContaining(hint) });
});

test.each([
  ['hf secret', 'expected visible ASCII characters without spaces, got a string of 9 characters'],
  ['', 'expected visible ASCII characters without spaces, got a string of 0 characters'],
  ['a\r\nX: y', 'got a string of 7 characters'],
  [7, 'expected a string, or false for none, got 7'],
])('refuses %j as a token, without repeating it', async (token, message) => {
  await expect(heed.fromPretrained('org/model', { ...options(), token: token as string })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.stringContaining(message),
  });
});

test('redirects in a circle and to other protocols are errors', async () => {
  for (const [location, message] of [
    ['/org/model/resolve/main/config.json', 'more than 20 redirects'],
    ['file:///etc/passwd', "a redirect to 'file:///etc/passwd'"],
  ] as const) {
    hub.answer = (_, response) => void response.writeHead(302, { location }).end();
    await expect(heed.fromPretrained('org/model', options())).rejects.toMatchObject({
      code: 'NETWORK',
      message: expect.stringContaining(message),
    });
  }
});
