/** Token vectors of ColBERTs and their scores. Expected values: PyTorch's, by tests/fixtures/models/late_interaction.py. */
import { readFileSync } from 'node:fs';
import { load, maxSim, type Tensor } from 'heed';
import { describe, expect, test } from 'vitest';
import { writeSafetensors } from '../../../web/src/io/safetensors.js';
import { bytesOf, expectClose, fixtures, readSafetensors } from './fixtures.js';
import { runsAsItIs, tinyModel } from './tiny.js';

type Matrix = number[][];
interface Golden {
  words: string[];
  texts: string[];
  layers: Record<string, Matrix>;
  cases: { name: string; family: string; query: Matrix[]; document: Matrix[]; scores: Matrix }[];
}
const golden: Golden = JSON.parse(readFileSync(`${fixtures}late-interaction.json`, 'utf8'));
const { words, texts, layers } = golden;
const heed = await load();
const json = (value: unknown) => JSON.stringify(value);
const tensorOf = (rows: Matrix) => ({
  shape: [rows.length, rows[0]!.length],
  data: Float32Array.from(rows.flat()),
});
const weights = (matrices: Record<string, Matrix>) =>
  writeSafetensors(Object.entries(matrices).map(([name, rows]) => ({ name, dtype: 'F32', ...tensorOf(rows) })));

type Files = Record<string, Uint8Array | string>;

/** A tiny encoder whose tokenizer has the words of the golden cases. */
function encoder(family: string): Files {
  const files = tinyModel();
  const tokenizer = JSON.parse(files['tokenizer.json'] as string);
  tokenizer.model.vocab = Object.fromEntries(words.map((word, id) => [word, id]));
  const added = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: false };
  for (const content of ['[Q] ', '[D] '])
    tokenizer.added_tokens.push({ id: words.indexOf(content), content, ...added });
  return { ...bytesOf(`${fixtures}${family}`), 'tokenizer.json': json(tokenizer), ...runsAsItIs };
}

/**
 * A folder in PyLate's layout. `dense`: each layer's matrix, and the matrix of its residual connection or whether it
 * has one.
 */
function pyLate(
  family: string,
  settings: object,
  dense: [string, (string | boolean)?, string?][] = [['linear']],
): Files {
  const folders = dense.map((_, i) => `${i + 1}_Dense`);
  const modules = [
    { idx: 0, name: '0', path: '', type: 'sentence_transformers.models.Transformer' },
    ...folders.map((path, i) => ({ idx: i + 1, name: String(i + 1), path, type: 'pylate.models.Dense.Dense' })),
  ];
  const files: Files = {
    ...encoder(family),
    'modules.json': json(modules),
    'config_sentence_transformers.json': json({
      ...{ query_prefix: '[Q] ', document_prefix: '[D] ', query_length: 11, document_length: 12 },
      ...{ attend_to_expansion_tokens: false, do_query_expansion: true, similarity_fn_name: 'MaxSim' },
      ...settings,
    }),
  };
  dense.forEach(([matrix, residual = false, activation = 'torch.nn.modules.linear.Identity'], i) => {
    const [rows, columns] = [layers[matrix]!.length, layers[matrix]![0]!.length];
    files[`${folders[i]}/config.json`] = json({
      ...{ in_features: columns, out_features: rows, bias: false, activation_function: activation },
      use_residual: residual !== false,
    });
    files[`${folders[i]}/model.safetensors`] = weights({
      'linear.weight': layers[matrix]!,
      ...(typeof residual === 'string' && { 'residual.weight': layers[residual]! }),
    });
  });
  return files;
}

/** A folder in the layout of Stanford's ColBERT. */
function stanford(metadata: object | null): Files {
  const files = encoder('bert');
  const tensors = readSafetensors(`${fixtures}bert/model.safetensors`);
  tensors.set('linear.weight', tensorOf(layers.linear!));
  const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
  return {
    ...files,
    'config.json': json({ ...config, architectures: ['HF_ColBERT'] }),
    'model.safetensors': writeSafetensors([...tensors].map(([name, tensor]) => ({ name, dtype: 'F32', ...tensor }))),
    ...(metadata && { 'artifact.metadata': json(metadata) }),
  };
}

const GELU = 'torch.nn.modules.activation.GELU';
const folders: Record<string, () => Files> = {
  stanford: () => stanford({ query_maxlen: 12, doc_maxlen: 14, query_token_id: '[unused0]', dim: 8 }),
  'stanford without punctuation mask': () => stanford({ mask_punctuation: false, attend_to_mask_tokens: true }),
  'pylate bert': () => pyLate('bert', {}),
  'pylate nomic_bert': () => pyLate('nomic_bert', {}),
  'pylate modernbert': () => pyLate('modernbert', { attend_to_expansion_tokens: true }),
  'pylate mpnet': () => pyLate('mpnet', {}),
  'pylate attending': () => pyLate('bert', { attend_to_expansion_tokens: true }),
  'pylate without expansion': () =>
    pyLate('bert', { do_query_expansion: false, query_prefix: '', skiplist_words: ['the', 'fox', 'unknown'] }),
  'pylate residual': () =>
    pyLate('bert', { document_prefix: '' }, [['wide', 'wideResidual', GELU], ['last'], ['square', true]]),
  none: () => encoder('bert'),
};

describe.each(golden.cases)('$name', ({ name, query, document, scores }) => {
  test.each([false, true])("has PyTorch's vectors and scores (worker: %s)", async (worker) => {
    using model = await heed.fromPretrained(folders[name]!(), { worker });
    const queries = await model.embedTokens(texts, { promptName: 'query' });
    const documents = await model.embedTokens(texts, { promptName: 'document' });
    const all: [Tensor[], Matrix[]][] = [
      [queries, query],
      [documents, document],
    ];
    for (const [got, expected] of all) {
      expect(got).toHaveLength(texts.length);
      expected.forEach((rows, n) => {
        expectClose(got[n]!, tensorOf(rows), texts[n]);
      });
    }
    scores.forEach((expected, n) => {
      const got = maxSim(queries[n]!, documents);
      expected.forEach((score, d) => {
        expect(Math.abs(got[d]! - score)).toBeLessThanOrEqual(1e-4 * (1 + Math.abs(score)));
      });
    });
    expect(await model.embedTokens(texts[1]!, { promptName: 'query' })).toEqual([queries[1]]); // a single text has the same vectors as in a list
  });
});

test('defaults of a folder without artifact.metadata; a pool; lengths of the call', async () => {
  using model = await heed.fromPretrained(stanford(null), { workers: 2 });
  const [query] = await model.embedTokens('a', { promptName: 'query' });
  expect(query!.shape).toEqual([32, 8]);
  expect((await model.embedTokens('a', { promptName: 'query', maxLength: 9 }))[0]!.shape).toEqual([9, 8]);
  expect((await model.embedTokens('a a a a a a a a', { promptName: 'document', maxLength: 6 }))[0]!.shape).toEqual([
    6, 8,
  ]);
  const progress: number[] = [];
  const onProgress = ({ done }: { done: number }) => progress.push(done);
  expect(await model.embedTokens([], { promptName: 'query', onProgress })).toEqual([]);
  await model.embedTokens(['a', 'x'], { promptName: 'document', onProgress });
  expect(progress.at(-1)).toBe(2);
});

test('other outputs of a ColBERT', async () => {
  using model = await heed.fromPretrained(folders.stanford!());
  expect(model.config.unusedTensors).not.toContain('linear.weight');
  expect((await model.embed('the fox')).shape).toEqual([1, 24]);
  const before = await model.embedTokens('the fox', { promptName: 'query' });
  await model.encode('the fox');
  expect(await model.embedTokens('the fox', { promptName: 'query' })).toEqual(before);
});

test('scores', () => {
  expect(
    maxSim(
      [
        [1, 0],
        [0, 1],
      ],
      [
        [
          [1, 2],
          [3, 1],
        ],
        [[-1, -1]],
      ],
    ),
  ).toEqual([5, -2]); // prettier-ignore
  expect(maxSim([[1, 0]], [])).toEqual([]);
  expect(maxSim([[1]], [{ data: new Float32Array(0), shape: [0, 1] }])).toEqual([-Infinity]);
  expect(maxSim([[1]], [[[Number.NaN], [1]]])).toEqual([Number.NaN]);
  expect(() => maxSim([1], [])).toThrow('maxSim: query: expected [rows, width], got shape [1]');
  expect(() => maxSim([[1]], [[[1]], [[1, 2]]])).toThrow('maxSim: documents[1]: expected rows of 1, got 2');
  expect(() => maxSim([[1]], 3 as never)).toThrow('maxSim: documents: expected an array of tensors');
});

test('says what is wrong', async () => {
  using model = await heed.fromPretrained(folders['pylate bert']!());
  const call = (options?: object, given: unknown = 'a') => model.embedTokens(given as string, options as never);
  await expect(call({ promptName: 'other' as never })).rejects.toThrow(
    "embedTokens.promptName: expected one of 'query', 'document'",
  );
  expect(await call(undefined)).toEqual(await call({ promptName: 'document' }));
  await expect(call({ promptName: 'query', textPairs: ['a'] })).rejects.toThrow('embedTokens.textPairs');
  await expect(call({ promptName: 'query', maxLength: 41 })).rejects.toThrow('a whole number from 1 to 40');
  await expect(call({ promptName: 'query' }, { inputIds: [[1]] })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  await expect(call({ promptName: 'document', truncation: false }, 'a '.repeat(30))).rejects.toMatchObject({
    code: 'TOO_LONG',
    message: 'texts[0]: expected at most 12 tokens, got 33. Shorten it, or let it be cut with truncation: true',
  });
  expect((await call({ maxLength: 3 }))[0]!.shape).toEqual([3, 8]);
  await expect(call({ maxLength: 1 })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'maxLength: expected at least 3, the number of special tokens, got 1',
  });
  const stop = AbortSignal.abort(new Error('stopped'));
  await expect(call({ promptName: 'query', signal: stop })).rejects.toThrow('stopped');
  expect((await call({ promptName: 'query' }))[0]!.shape).toEqual([11, 8]); // the model works afterwards
  model.dispose();
  await expect(call({ promptName: 'query' })).rejects.toMatchObject({ code: 'DISPOSED' });

  const other = async (files: Files, message: string | RegExp) => {
    using bad = await heed.fromPretrained(files);
    await expect(bad.embedTokens('a', { promptName: 'document' })).rejects.toThrow(message);
  };
  await other(pyLate('bert', { document_prefix: '[E] ' }), "the token '[E] '");
  await other(pyLate('bert', { document_length: 0 }), 'document_length: expected a whole number from 1');
  await other(pyLate('bert', { skiplist_words: 'a' }), 'skiplist_words: expected a list of words, got "a"');
  await other(stanford({ doc_maxlen: 'long' }), 'artifact.metadata: doc_maxlen');
  const { 'tokenizer.json': _, ...without } = folders['pylate bert']!();
  await other(without, 'embedTokens: expected a model with tokenizer.json');
  const unmasked = folders['pylate bert']!();
  unmasked['tokenizer.json'] = (unmasked['tokenizer.json'] as string).replaceAll('[MASK]', '[HIDE]');
  using model2 = await heed.fromPretrained(unmasked);
  await expect(model2.embedTokens('a', { promptName: 'query' })).rejects.toThrow('a tokenizer with a mask token');
  const files = pyLate('bert', {}, [['wide', 'wideResidual']]);
  files['1_Dense/model.safetensors'] = weights({ 'linear.weight': layers.wide! });
  await expect(heed.fromPretrained(files)).rejects.toThrow("expected 'residual.weight' [20, 24]");
});
