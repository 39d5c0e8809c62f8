/** heed/langchain with LangChain's own vector store and retrievers. */
import { ContextualCompressionRetriever } from '@langchain/classic/retrievers/contextual_compression';
import { MemoryVectorStore } from '@langchain/classic/vectorstores/memory';
import { Document } from '@langchain/core/documents';
import { embeddings, reranker } from 'heed/langchain';
import { expect, test } from 'vitest';
import { tinyModel } from '../web/models/tiny.js';
import { expected, heed, model, question, texts } from './support.js';

test('a vector store finds documents by similarity', async () => {
  const store = await MemoryVectorStore.fromTexts(
    texts,
    texts.map((_, id) => ({ id })),
    embeddings(model),
  );
  const [[best, score], second] = (await store.similaritySearchWithScore(question, 2)) as [
    [Document, number],
    [Document, number],
  ];
  expect(best.pageContent).toBe(texts[1]);
  expect(best.metadata).toEqual({ id: 1 });
  const dot = expected.documents[1]!.reduce((sum, x, i) => sum + x * expected.query[i]!, 0);
  expect(score).toBeCloseTo(dot, 5); // the model normalizes its vectors
  expect(score).toBeGreaterThan(second[1]);
  expect(store.memoryVectors.map(({ embedding }) => embedding)).toEqual(expected.documents);
  expect((await store.asRetriever(1).invoke(question))[0]!.pageContent).toBe(texts[1]);
});

test('queries get the query prompt', async () => {
  expect(await embeddings(model).embedQuery(question)).toEqual(expected.query);
  const own = embeddings(model, { queryPrompt: 'q: ' });
  expect(await own.embedQuery('x')).toEqual((await model.embed(['x'], { prompt: 'q: ' })).toArray<number[][]>()[0]);
});

test('a retriever reranks what it found', async () => {
  using crossEncoder = await heed.fromPretrained(tinyModel('bert-one-label'));
  const documents = ['the quick fox', 'a x', 'the brown fox .'].map(
    (pageContent, id) => new Document({ pageContent, metadata: { id } }),
  );
  const store = await MemoryVectorStore.fromDocuments(documents, embeddings(model));
  const retriever = new ContextualCompressionRetriever({
    baseCompressor: reranker(crossEncoder, { topN: 2 }) as never,
    baseRetriever: store.asRetriever(3),
  });
  const found = await retriever.invoke('brown fox');
  const { logits } = await crossEncoder.predict(
    'sequence-classification',
    documents.map(() => 'brown fox'),
    { textPairs: documents.map(({ pageContent }) => pageContent) },
  );
  const order = [0, 1, 2].sort((a, b) => logits.data[b]! - logits.data[a]!);
  expect(found.map(({ metadata }) => metadata.id)).toEqual(order.slice(0, 2));
  expect(found[0]).toBeInstanceOf(Document);
  expect(found[0]!.metadata.relevanceScore).toBeCloseTo(1 / (1 + Math.exp(-logits.data[order[0]!]!)), 6);
  expect(documents.every(({ metadata }) => !('relevanceScore' in metadata))).toBe(true);
});

test('refuses what is not a model and unknown options', () => {
  expect(() => embeddings(undefined as never)).toThrow('embeddings: model: expected a model');
  expect(() => embeddings(model, { topN: 1 } as object)).toThrow("the unknown option 'topN'");
  expect(() => reranker(model, { topN: 0 })).toThrow('reranker.topN: expected an integer from 1');
});
