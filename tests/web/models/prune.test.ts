/**
 * `heed.prune`: the corpus's tokens and vectors do not change, with every kind of tokenizer and in quantized folders;
 * effects on other texts; rejected calls.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load, type PruneReport } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';
import { bertFiles } from './bert-files.js';
import { bytesOf, fixtures } from './fixtures.js';
import { tinyModel } from './tiny.js';

type Files = Record<string, Uint8Array | string>;
const heed = await load();
const scratch = mkdtempSync(join(tmpdir(), 'heed-prune-'));
afterAll(() => rmSync(scratch, { recursive: true }));

const read = (name: string) => JSON.parse(readFileSync(`${fixtures}tokenizers/${name}.json`, 'utf8'));
const parsed = (file: Uint8Array | string) =>
  JSON.parse(typeof file === 'string' ? file : new TextDecoder().decode(file));
const folder = (tokenizer: object): Files => ({
  ...bertFiles({ width: 16, inner: 32, heads: 2, layers: 1, vocab: 600, positions: 64 }),
  'tokenizer.json': JSON.stringify(tokenizer),
});

const corpus = [
  'The quick brown fox jumps.',
  'strength of an ox',
  'He said: "naïve" 👩‍👩‍👧 x',
  '',
  'ǆ ½ résumé 𝔘nknown',
];
const others = ['a tokenization of other words', 'zebras, 2004'];

/** Checks that texts have bit-identical vectors in the original and in the pruned folder. */
async function requireSameVectors(
  before: Files,
  after: Record<string, Uint8Array>,
  dtype: 'fp32' | 'q8',
  texts: string[],
) {
  using a = await heed.fromPretrained(before, { dtype });
  using b = await heed.fromPretrained(after, { dtype });
  expect([...(await b.embed(texts)).data]).toEqual([...(await a.embed(texts)).data]);
  const [x, y] = [await a.tokenize(texts), await b.tokenize(texts)];
  expect(y.tokens).toEqual(x.tokens);
  expect(y.offsets).toEqual(x.offsets);
}

describe.each(['bert-uncased', 'bert-cased', 'roberta', 'modernbert', 'xlm-roberta'])('%s', (name) => {
  test("keeps the corpus's vectors, bit for bit, with fewer rows", async () => {
    const before = folder(read(name));
    const { files, report } = await heed.prune(before, { keep: corpus, texts: others });
    expect(report.rows.before).toBe(600);
    expect(report.rows.after).toBeLessThan(name.includes('bert-') ? 330 : 420);
    expect(report.bytesBefore - report.bytesAfter).toBeGreaterThan((600 - report.rows.after) * 16 * 4);
    expect(report.loss!.mean).toBeLessThanOrEqual(1 + 1e-6);
    expect(parsed(files['config.json']!).vocab_size).toBe(report.rows.after);
    await requireSameVectors(before, files, 'fp32', corpus);
    await requireSameVectors(before, files, 'q8', corpus);
    // Other texts can still be tokenized.
    using model = await heed.fromPretrained(files);
    const { tokens } = await model.tokenize('a tokenization');
    expect(tokens[0]!.length).toBeGreaterThan(3);
    // Pruning again removes nothing.
    const again = await heed.prune(files, { keep: corpus });
    expect(again.report.rows).toEqual({ before: report.rows.after, after: report.rows.after });
  });
});

test('before and after quantize', async () => {
  const before = folder(read('bert-uncased'));
  for (const tables of ['int8', 'int4'] as const) {
    const quantized = await heed.quantize(before, { tables });
    const then = await heed.prune(quantized.files, { keep: corpus });
    await requireSameVectors(quantized.files, then.files, 'q8', corpus);
    const first = await heed.prune(before, { keep: corpus });
    const both = await heed.quantize(first.files, { tables });
    // The scales of columns in 4 bits depend on all rows.
    if (tables === 'int8') expect(both.files['model.safetensors']).toEqual(then.files['model.safetensors']);
    else expect(both.report.bytesAfter).toBe(then.report.bytesAfter);
    expect(then.report.bytesAfter).toBeLessThan(quantized.report.bytesAfter);
  }
});

test('the tied decoder of a masked language model, special tokens, prompts and files of other tokenizers', async () => {
  const tiny = tinyModel();
  const before: Files = {
    ...tiny,
    'vocab.txt': 'x',
    'tokenizer_config.json': JSON.stringify({
      added_tokens_decoder: { 4: { content: '[MASK]' } },
      mask_token: '[MASK]',
    }),
    'config_sentence_transformers.json': JSON.stringify({ prompts: { query: 'brown ' }, default_prompt_name: 'query' }),
  };
  const { files, report } = await heed.prune(before, { keep: ['the fox [MASK]'] });
  expect(report.leftOut).toEqual(['vocab.txt']);
  expect(report.rows.after).toBeLessThan(report.rows.before);
  expect(Object.keys(files)).not.toContain('vocab.txt');
  using a = await heed.fromPretrained(before);
  using b = await heed.fromPretrained(files);
  expect((await b.tokenize('quick brown')).tokens[0]).toEqual(['[CLS]', '[UNK]', 'brown', '[SEP]']);
  const [x, y] = [await a.predict('fill-mask', 'the fox [MASK]'), await b.predict('fill-mask', 'the fox [MASK]')];
  const vocab = parsed(files['tokenizer.json']!).model.vocab as Record<string, number>;
  const old = parsed(tiny['tokenizer.json']!).model.vocab as Record<string, number>;
  for (const [token, id] of Object.entries(vocab)) expect(y.logits.data[id]).toBe(x.logits.data[old[token]!]);
  expect(parsed(files['tokenizer_config.json']!).added_tokens_decoder).toEqual({ 4: { content: '[MASK]' } });
});

test('positions after the id of padding, and ids that change', async () => {
  const tokenizer = JSON.parse(tinyModel()['tokenizer.json'] as string);
  // Positions begin at an offset that depends on the padding token's id.
  const before: Files = { ...bytesOf(`${fixtures}roberta`), 'tokenizer.json': JSON.stringify(tokenizer) };
  const { files } = await heed.prune(before, { keep: ['the fox'] });
  expect(parsed(files['config.json']!).pad_token_id).toBe(1);
  await requireSameVectors(before, files, 'fp32', ['the fox', 'fox']);

  // Special tokens at the end of the vocabulary, as in other checkpoints.
  const moved = JSON.parse(JSON.stringify(tokenizer).replace(/"id":(\d)\b/g, (_, id) => `"id":${70 + Number(id)}`));
  for (const token of ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]']) moved.model.vocab[token] += 70;
  for (const token of ['[CLS]', '[SEP]']) moved.post_processor.special_tokens[token].ids = [moved.model.vocab[token]];
  const config = { ...parsed(bytesOf(`${fixtures}bert`)['config.json']!), pad_token_id: 70, eos_token_id: [73, 999] };
  const late: Files = {
    ...bytesOf(`${fixtures}bert`),
    'config.json': JSON.stringify(config),
    'tokenizer.json': JSON.stringify(moved),
  };
  const pruned = await heed.prune(late, { keep: ['the fox'] });
  await requireSameVectors(late, pruned.files, 'fp32', ['the fox']);
  const { model, added_tokens, post_processor } = parsed(pruned.files['tokenizer.json']!);
  const now = parsed(pruned.files['config.json']!);
  expect(now.pad_token_id).toBe(model.vocab['[PAD]']);
  expect(now.eos_token_id).toEqual([model.vocab['[SEP]']]);
  expect(added_tokens.map(({ id }: { id: number }) => id)).toEqual(
    ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'].map((token) => model.vocab[token]),
  );
  expect(post_processor.special_tokens['[CLS]'].ids).toEqual([model.vocab['[CLS]']]);
});

test('entries of the vocabulary to keep besides those of the corpus', async () => {
  const before = folder(read('bert-uncased'));
  const vocab = parsed(before['tokenizer.json']!).model.vocab as Record<string, number>;
  const [word, piece] = [/^[a-z]{6,}$/, /^##[a-z]{3,}$/].map(
    (pattern) => Object.keys(vocab).find((t) => pattern.test(t))!,
  );
  const { files } = await heed.prune(before, { keep: ['fox'], tokens: [word!, piece!] });
  const kept = Object.keys(parsed(files['tokenizer.json']!).model.vocab);
  expect(kept).toEqual(expect.arrayContaining([word, piece]));
  await requireSameVectors(before, files, 'fp32', [word!]);
});

test.each(['bert', 'roberta'])('fewer positions: %s', async (name) => {
  const before: Files = {
    ...bytesOf(`${fixtures}${name}`),
    'tokenizer.json': tinyModel()['tokenizer.json']!,
    'sentence_bert_config.json': JSON.stringify({ max_seq_length: 32 }),
    'tokenizer_config.json': JSON.stringify({ model_max_length: 512 }),
  };
  const old = parsed(before['config.json']!);
  const { files } = await heed.prune(before, { keep: ['the quick fox'], positions: 8 });
  const offset = name === 'roberta' ? old.pad_token_id + 1 : 0;
  expect(parsed(files['config.json']!).max_position_embeddings).toBe(8 + offset);
  expect(parsed(files['sentence_bert_config.json']!).max_seq_length).toBe(8);
  expect(parsed(files['tokenizer_config.json']!).model_max_length).toBe(8);
  await requireSameVectors(before, files, 'fp32', ['the quick fox']);
  using a = await heed.fromPretrained(before);
  using b = await heed.fromPretrained(files);
  expect(b.config.maxLength).toBe(8);
  const long = 'the fox the fox the fox the fox';
  expect([...(await b.embed(long)).data]).toEqual([...(await a.embed(long, { maxLength: 8 })).data]);
});

test('words that were unknown stay so', async () => {
  const tokenizer = read('bert-uncased');
  // With 'ab', tokenization fails after it; without 'ab', the longest match would find 'a' and '##b' + '##bc' instead.
  const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
  const words = [...special, 'ab', 'a', '##bc', 'fox', 'dog'];
  tokenizer.model.vocab = Object.fromEntries(words.map((word, id) => [word, id]));
  const before = folder(tokenizer);
  const { files, report } = await heed.prune(before, { keep: ['abc fox', 'Ábc'], texts: ['dog abc', 'fox'] });
  await requireSameVectors(before, files, 'fp32', ['abc fox', 'Ábc']);
  expect(report.loss).toMatchObject({ unknown: { before: 1 / 3, after: 2 / 3 }, text: 'dog abc' });
  expect(report.loss!.worst).toBeLessThan(report.loss!.mean);
});

test('words that are too long for the tokenizer keep no pieces', async () => {
  const tokenizer = read('bert-uncased');
  const words = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]', 'fox', '##fox', 'dog', '##dog'];
  tokenizer.model.vocab = Object.fromEntries(words.map((word, id) => [word, id]));
  const keptOf = async (keep: string, limit: number | undefined) => {
    tokenizer.model.max_input_chars_per_word = limit;
    const { files } = await heed.prune(folder(tokenizer), { keep: [keep] });
    return Object.keys(parsed(files['tokenizer.json']!).model.vocab).slice(5);
  };
  const long = 'fox'.repeat(7000);
  expect(await keptOf(long, undefined)).toEqual([]);
  expect(await keptOf(`dog ${long}`, 100)).toEqual(['dog']);
  expect(await keptOf(`${'fox'.repeat(40)}é`, 130)).toEqual(['fox', '##fox']); // an unknown word, which the tokenizer tries to split
});

test('static embeddings', async () => {
  const golden = parsed(readFileSync(`${fixtures}static-embedding.json`, 'utf8'));
  const { writeSafetensors } = await import('../../../web/src/io/safetensors.js');
  const table = { shape: [24, 16], data: Float32Array.from(golden.table.flat()) };
  const before: Files = {
    'config.json': JSON.stringify({ model_type: 'model2vec', normalize: true }),
    'tokenizer.json': tinyModel()['tokenizer.json']!,
    'model.safetensors': writeSafetensors([{ name: 'embeddings', dtype: 'F32', ...table }]),
  };
  const { files, report } = await heed.prune(before, { keep: ['the quick fox', 'a pelican'] });
  expect(report.rows.after).toBeLessThan(24);
  await requireSameVectors(before, files, 'fp32', ['the quick fox', 'a pelican']);
});

test('to a folder on disk; one that exists is refused', async () => {
  const out = join(scratch, 'pruned');
  const progress: number[] = [];
  const onProgress = ({ done, total }: { done: number; total: number }) => progress.push(done / total);
  const { files } = await heed.prune(tinyModel(), { keep: ['the fox'], out, onProgress });
  expect(files).toEqual({});
  expect(progress.at(-1)).toBe(1);
  using model = await heed.fromPretrained(out);
  expect((await model.embed('the fox')).shape).toEqual([1, 24]);
  await expect(heed.prune(tinyModel(), { keep: ['a'], out })).rejects.toThrow("out: expected a new folder's path");
});

test('says what is wrong, and leaves nothing behind', async () => {
  const refused = async (source: Files, options: object, message: string, code = 'INVALID_ARGUMENT') =>
    await expect(heed.prune(source, options as never)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message),
    });
  await refused(tinyModel(), {}, 'prune.keep: expected an array of strings');
  await refused(tinyModel(), { keep: [] }, 'prune.keep: expected at least one text, got none');
  await refused(tinyModel(), { keep: ['a'], texts: [] }, 'prune.texts: expected at least one text');
  await refused(
    tinyModel(),
    { keep: ['a'], tokens: ['the', 'qqq'] },
    "prune.tokens[1]: expected an entry of the vocabulary, got 'qqq'",
  );
  await refused(
    tinyModel(),
    { keep: ['the quick fox'], positions: 4 },
    'prune.positions: expected 5 (the tokens of a text in `keep`) to',
  );
  await refused(tinyModel(), { keep: ['a'], positions: 513 }, 'prune.positions: expected 3');
  const nomic: Files = { ...bytesOf(`${fixtures}nomic_bert`), 'tokenizer.json': tinyModel()['tokenizer.json']! };
  await refused(
    nomic,
    { keep: ['a'], positions: 4 },
    'undefined for a model without a table of position embeddings',
    'UNSUPPORTED',
  );
  const { 'tokenizer.json': tokenizer, ...without } = tinyModel();
  await refused(without, { keep: ['a'] }, 'expected a folder with tokenizer.json', 'UNSUPPORTED');
  const odd = JSON.parse(tokenizer as string);
  odd.model.type = 'Characters';
  const message = 'tokenizer.json: model: expected a WordPiece, BPE, Unigram or WordLevel model';
  await refused({ ...without, 'tokenizer.json': JSON.stringify(odd) }, { keep: ['a'] }, message, 'UNSUPPORTED');
  for (const damaged of ['{}', '{"model":null}', '{"model":{"type":"WordPiece"}}'])
    await expect(heed.prune({ ...without, 'tokenizer.json': damaged }, { keep: ['a'] })).rejects.toMatchObject({
      name: 'HeedError',
      message: expect.stringContaining('tokenizer.json'),
    });
  const out = join(scratch, 'stopped');
  const stop = new AbortController();
  const stopped = heed.prune(tinyModel(), {
    keep: ['a'],
    out,
    signal: stop.signal,
    onProgress: () => stop.abort(new Error('stopped')),
  });
  await expect(stopped).rejects.toThrow('stopped');
  expect(existsSync(out)).toBe(false);
  const report: PruneReport = (await heed.prune(tinyModel(), { keep: ['a'] })).report; // the model works afterwards
  expect(report.loss).toBeNull();
});
