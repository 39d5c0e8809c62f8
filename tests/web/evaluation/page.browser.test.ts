/** heed/evaluation in a page, with a model in a worker. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSite, type Site } from '../models/site.js';

let site: Site;
beforeAll(async () => {
  site = await openSite(() => false);
});
afterAll(() => site?.close());

declare const heed: typeof import('heed');
declare const evaluation: typeof import('heed/evaluation');

test('measures a search and similarities', async () => {
  const found = await site.page.evaluate(async () => {
    const runtime = await heed.load();
    const model = await runtime.fromPretrained(undefined, { worker: true });
    const data = {
      queries: { one: 'a kitten', two: 'the ocean' },
      corpus: { cat: 'a small cat', car: 'a fast car', sea: 'the deep sea' },
      relevantDocs: { one: ['cat'], two: ['sea'] },
    };
    const retrieval = await evaluation.evaluateInformationRetrieval(model, data, { heed: runtime });
    const pairs = [
      { a: 'a small cat', b: 'a little cat', score: 5 },
      { a: 'a small cat', b: 'the deep sea', score: 0 },
    ];
    const { spearman } = await evaluation.evaluateEmbeddingSimilarity(model, pairs);
    const { accuracy } = evaluation.classificationMetrics(['a', 'b'], ['a', 'a']);
    runtime.dispose();
    return { mrr: retrieval.mrr[10], spearman, accuracy };
  });
  expect(found).toEqual({ mrr: 1, spearman: 1, accuracy: 0.5 });
});
