/** heed/chroma with chromadb's client, and a server for tests that follows Chroma's HTTP API. */
import { ChromaClient } from 'chromadb';
import { embeddingFunction } from 'heed/chroma';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startChromaServer } from './chroma-server.js';
import { expected, model, question, texts } from './support.js';

let client: ChromaClient;
let server: Awaited<ReturnType<typeof startChromaServer>>;
beforeAll(async () => {
  server = await startChromaServer();
  client = new ChromaClient({ host: '127.0.0.1', port: server.port });
});
afterAll(() => server?.close());

test("a collection's query finds documents by the query prompt", async () => {
  const ef = embeddingFunction(model);
  const collection = await client.createCollection({ name: 'notes', embeddingFunction: ef });
  await collection.add({ ids: texts.map((_, id) => `${id}`), documents: texts });
  const found = await collection.query({ queryTexts: [question], nResults: 2 });
  expect(found.documents[0]![0]).toBe(texts[1]);
  // The space is the cosine's, which the function says is its default.
  const dot = expected.documents[1]!.reduce((sum, x, i) => sum + x * expected.query[i]!, 0);
  expect(found.distances![0]![0]).toBeCloseTo(1 - dot, 4);
  const { embeddings } = await collection.get({ ids: ['2'], include: ['embeddings'] });
  embeddings[0]!.forEach((x, i) => {
    expect(x).toBeCloseTo(expected.documents[2]![i]!, 6);
  });
});

test('a collection that is opened again is given the function again', async () => {
  const collection = await client.getCollection({ name: 'notes', embeddingFunction: embeddingFunction(model) });
  const found = await collection.query({ queryTexts: ['music'], nResults: 1 });
  expect(found.documents[0]).toEqual([texts[2]]);
});

test('refuses what is not a model and unknown spaces', () => {
  expect(() => embeddingFunction(3 as never)).toThrow('embeddingFunction: model: expected a model');
  expect(() => embeddingFunction(model, { space: 'dot' as never })).toThrow('embeddingFunction.space');
});
