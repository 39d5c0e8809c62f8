/** heed/ai-sdk with the AI SDK's own functions. */
import { cosineSimilarity, embed, embedMany, rerank } from 'ai';
import { embeddingModel, rerankingModel } from 'heed/ai-sdk';
import { expect, test } from 'vitest';
import { tinyModel } from '../web/models/tiny.js';
import { expected, heed, model, question, texts } from './support.js';

test('embedMany embeds documents with the document prompt', async () => {
  const { embeddings, values, warnings } = await embedMany({ model: embeddingModel(model), values: texts });
  expect(values).toEqual(texts);
  expect(embeddings).toEqual(expected.documents);
  expect(warnings).toEqual([]);
});

test('embed embeds queries, by the option or for one call', async () => {
  const query = await embed({ model: embeddingModel(model, { role: 'query' }), value: question });
  expect(query.embedding).toEqual(expected.query);
  const providerOptions = { heed: { role: 'query' } };
  const once = await embed({ model: embeddingModel(model), value: question, providerOptions });
  expect(once.embedding).toEqual(expected.query);
  const scores = expected.documents.map((vector) => cosineSimilarity(vector, query.embedding));
  expect(scores.indexOf(Math.max(...scores))).toBe(1);
});

test('a prompt of the caller replaces those of the folder', async () => {
  const { embedding } = await embed({ model: embeddingModel(model, { documentPrompt: '' }), value: texts[0]! });
  expect(embedding).toEqual((await model.embed([texts[0]!], { prompt: '' })).toArray<number[][]>()[0]);
});

test('an abort stops the call and leaves the model usable', async () => {
  const abortSignal = AbortSignal.abort(new Error('enough'));
  await expect(embedMany({ model: embeddingModel(model), values: texts, abortSignal })).rejects.toThrow();
  expect((await embed({ model: embeddingModel(model), value: texts[0]! })).embedding).toEqual(expected.documents[0]);
});

test('refuses what is not a model, unknown options and roles', async () => {
  const refused = (message: string) =>
    expect.objectContaining({ name: 'HeedError', message: expect.stringContaining(message) });
  expect(() => embeddingModel({} as never)).toThrow(refused('embeddingModel: model: expected a model'));
  expect(() => rerankingModel(null as never)).toThrow(refused('rerankingModel: model: expected a model'));
  expect(() => embeddingModel(model, { prompt: 'x' } as object)).toThrow(refused("the unknown option 'prompt'"));
  expect(() => embeddingModel(model, { role: 'passage' } as object)).toThrow(refused('embeddingModel.role'));
  const providerOptions = { heed: { role: 'passage' } };
  await expect(embed({ model: embeddingModel(model), value: 'a', providerOptions, maxRetries: 0 })).rejects.toThrow(
    'providerOptions.heed.role',
  );
});

test('rerank orders documents by a cross-encoder', async () => {
  using crossEncoder = await heed.fromPretrained(tinyModel('bert-one-label'));
  const documents = ['the quick fox', 'a x', 'the brown fox .', 'y z'];
  const query = 'quick brown fox';
  const { logits } = await crossEncoder.predict(
    'sequence-classification',
    documents.map(() => query),
    { textPairs: documents },
  );
  const order = [0, 1, 2, 3].sort((a, b) => logits.data[b]! - logits.data[a]!);
  const result = await rerank({ model: rerankingModel(crossEncoder), query, documents, topN: 3 });
  expect(result.ranking.map(({ originalIndex }) => originalIndex)).toEqual(order.slice(0, 3));
  expect(result.rerankedDocuments).toEqual(order.slice(0, 3).map((i) => documents[i]));
  result.ranking.forEach(({ score }, rank) => {
    expect(score).toBeCloseTo(1 / (1 + Math.exp(-logits.data[order[rank]!]!)), 6);
  });
  const objects = documents.map((text) => ({ text }));
  const byJson = await rerank({ model: rerankingModel(crossEncoder), query, documents: objects });
  expect(byJson.ranking).toHaveLength(4);
});
