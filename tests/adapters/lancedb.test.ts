/** heed/lancedb with LanceDB in a folder. */
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@lancedb/lancedb';
import { getRegistry, LanceSchema, register, TextEmbeddingFunction } from '@lancedb/lancedb/embedding';
import { Utf8 } from 'apache-arrow';
import { embeddingFunction } from 'heed/lancedb';
import { afterAll, expect, test } from 'vitest';
import { expected, model, question, texts } from './support.js';

const folder = fs.mkdtempSync(join(tmpdir(), 'heed-lancedb-'));
afterAll(() => fs.rmSync(folder, { recursive: true, force: true }));

test('a table embeds its rows and searches by text', async () => {
  register('heed')(embeddingFunction(TextEmbeddingFunction, model));
  const heed = (await getRegistry().get('heed')!.create()) as TextEmbeddingFunction;
  expect(heed).toBeInstanceOf(TextEmbeddingFunction);
  const db = await connect(folder);
  const schema = LanceSchema({ id: new Utf8(), text: heed.sourceField(), vector: heed.vectorField() });
  const table = await db.createEmptyTable('notes', schema);
  await table.add(texts.map((text, id) => ({ id: `${id}`, text })));
  const rows = (await table.query().toArray()) as { id: string; vector: Iterable<number> }[];
  for (const { id, vector } of rows) expect([...vector]).toEqual(expected.documents[Number(id)]);
  const [best] = (await table.search(question).limit(1).toArray()) as { text: string; _distance: number }[];
  expect(best!.text).toBe(texts[1]);
  const distance = expected.documents[1]!.reduce((sum, x, i) => sum + (x - expected.query[i]!) ** 2, 0);
  expect(best!._distance).toBeCloseTo(distance, 4);

  // Opened again, the function is found in the registry.
  const again = await (await connect(folder)).openTable('notes');
  await again.add([{ id: '9', text: 'A choir sang in the cathedral.' }]);
  const found = (await again.search('singing').limit(1).toArray()) as { id: string }[];
  expect(found[0]!.id).toBe('9');
});

test('refuses what is not a class or a model', () => {
  expect(() => embeddingFunction({} as never, model)).toThrow("embeddingFunction: expected LanceDB's");
  expect(() => embeddingFunction(TextEmbeddingFunction, {} as never)).toThrow('embeddingFunction: model');
});
