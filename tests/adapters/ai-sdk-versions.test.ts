/** heed/ai-sdk with each version of the AI SDK that has one of its interfaces: 5, 6 and 7. */
import * as ai7 from 'ai';
import * as ai5 from 'ai-5';
import * as ai6 from 'ai-6';
import { embeddingModel, rerankingModel, type Specification } from 'heed/ai-sdk';
import { describe, expect, test, vi } from 'vitest';
import { tinyModel } from '../web/models/tiny.js';
import { expected, heed, model, question, texts } from './support.js';

/** What is called of each version; their types differ in more than matters here. */
interface Sdk {
  embed(options: object): Promise<{ embedding: number[]; usage: { tokens: number } }>;
  embedMany(options: object): Promise<{ embeddings: number[][]; usage: { tokens: number }; warnings?: object[] }>;
  rerank(options: object): Promise<{ ranking: { originalIndex: number; score: number }[] }>;
}

/** The tokens of texts with their prompt, special ones included. */
const count = async (list: readonly string[], promptName: string) => {
  const { inputIds } = await model.tokenize(list.map((text) => model.config.prompts[promptName] + text));
  return inputIds.reduce((sum, ids) => sum + ids.length, 0);
};

describe.each<[number, Specification | 'by default', unknown]>([
  [5, 'v2', ai5],
  [6, 'v2', ai6],
  [6, 'by default', ai6],
  [6, 'v3', ai6],
  [7, 'by default', ai7],
  [7, 'v3', ai7],
  [7, 'v4', ai7],
])('AI SDK %d, specificationVersion %s', (_, specification, sdk) => {
  const { embed, embedMany } = sdk as Sdk;
  const options = specification === 'by default' ? {} : { specificationVersion: specification };

  test('embedMany returns the vectors and the number of tokens', async () => {
    const { embeddings, usage } = await embedMany({ model: embeddingModel(model, options), values: texts });
    expect(embeddings).toEqual(expected.documents);
    expect(usage.tokens).toBe(await count(texts, 'passage'));
  });

  test('embed does so for a query', async () => {
    const query = embeddingModel(model, { ...options, role: 'query' });
    const { embedding, usage } = await embed({ model: query, value: question });
    expect(embedding).toEqual(expected.query);
    expect(usage.tokens).toBe(await count([question], 'query'));
  });

  test('tokens of texts that are cut count as far as they were used', async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {}); // where the SDK reports the warning
    vi.spyOn(console, 'info').mockImplementation(() => {});
    const { usage } = await embedMany({ model: embeddingModel(model, options), values: ['a '.repeat(1000), 'a'] });
    expect(usage.tokens).toBe(model.config.maxLength + (await count(['a'], 'passage')));
    vi.restoreAllMocks();
  });
});

describe.each<[number, 'v3' | 'v4' | 'by default', unknown]>([
  [6, 'by default', ai6],
  [7, 'by default', ai7],
  [7, 'v4', ai7],
])('AI SDK %d, reranking, specificationVersion %s', (_, specification, sdk) => {
  test('rerank orders documents', async () => {
    using crossEncoder = await heed.fromPretrained(tinyModel('bert-one-label'));
    const documents = ['the quick fox', 'a x', 'the brown fox .'];
    const query = 'quick brown fox';
    const { logits } = await crossEncoder.predict('sequence-classification', [query, query, query], {
      textPairs: documents,
    });
    const order = [0, 1, 2].sort((a, b) => logits.data[b]! - logits.data[a]!);
    const reranking = rerankingModel(
      crossEncoder,
      specification === 'by default' ? {} : { specificationVersion: specification },
    );
    const { ranking } = await (sdk as Sdk).rerank({ model: reranking, query, documents });
    expect(ranking.map(({ originalIndex }) => originalIndex)).toEqual(order);
  });
});
