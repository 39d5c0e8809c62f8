/** What the tests of the adapters share: the shipped model, with prompts of its own, and texts to search. */
import * as fs from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load } from 'heed';

export const root = fileURLToPath(new URL('../..', import.meta.url));

export const heed = await load();

const prompts = { query: 'query: ', passage: 'passage: ' };

/** The shipped model's folder with prompts, which makes queries and documents distinguishable. */
const folder: Record<string, Uint8Array | string> = {
  'config_sentence_transformers.json': JSON.stringify({ prompts }),
};
for (const name of [
  'config.json',
  'tokenizer.json',
  'model.safetensors',
  'modules.json',
  '1_Pooling/config.json',
  'sentence_bert_config.json',
])
  folder[name] = fs.readFileSync(`${root}web/model/${name}`);
export const model = await heed.fromPretrained(folder);

export const texts = [
  'The cat sleeps on the sofa all afternoon.',
  'Interest rates rose by half a point.',
  'The orchestra played a symphony by Mahler.',
  'Boil the pasta for nine minutes in salted water.',
];
export const question = 'Which text is about interest rates and banks?';

/** The vectors that the adapters should produce. */
export const expected = {
  documents: (await model.embed(texts, { promptName: 'passage' })).toArray<number[][]>(),
  query: (await model.embed([question], { promptName: 'query' })).toArray<number[][]>()[0]!,
};
