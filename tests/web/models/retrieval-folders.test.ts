/**
 * Folders whose modules give token vectors, sparse vectors or scores of pairs, against sentence-transformers' results
 * (tests/fixtures/retrieval/generate.py).
 */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load, maxSim, rerank, type SparseVector, type Tensor } from 'heed';
import { describe, expect, test } from 'vitest';
import { ChatTemplate } from '../../../web/src/text/chat-template.js';
import { bytesOf } from './fixtures.js';

const root = fileURLToPath(new URL('../../fixtures/retrieval/', import.meta.url));
const heed = await load();
const folders = readdirSync(root, { withFileTypes: true }).flatMap((entry) => (entry.isDirectory() ? entry.name : []));
const expectedOf = (name: string) => JSON.parse(readFileSync(`${root}${name}/expected.json`, 'utf8'));
const named = (kind: string) => folders.filter((name) => name.startsWith(kind));

/** Numbers of the expected ones within the tolerance of families: 1e-5 + 1e-4 |x|. */
function expectNear(got: ArrayLike<number>, expected: readonly number[], what: string): void {
  expect(got.length, what).toBe(expected.length);
  expected.forEach((value, i) => {
    const difference = Math.abs(got[i]! - value);
    expect(difference, `${what}: entry ${i}, ${got[i]} for ${value}`).toBeLessThanOrEqual(
      1e-5 + 1e-4 * Math.abs(value),
    );
  });
}

describe.each(named('tokens-'))('%s', (name) => {
  const { texts, query, document, scores } = expectedOf(name) as {
    texts: string[];
    query: number[][][];
    document: number[][][];
    scores: number[][];
  };

  const general = JSON.parse(readFileSync(`${root}${name}/config_sentence_transformers.json`, 'utf8'));
  const lengthNormalize = general.similarity_fn_name === 'meanmaxsim';

  test.each([false, true])("has sentence-transformers' token vectors and scores (worker: %s)", async (worker) => {
    using model = await heed.fromPretrained(worker ? bytesOf(root + name) : root + name, { worker, strict: true });
    const queries = await model.embedTokens(texts, { promptName: 'query' });
    const documents = await model.embedTokens(texts, { promptName: 'document' });
    const compare = (got: Tensor[], expected: number[][][], what: string) =>
      expected.forEach((rows, n) => {
        expect(got[n]!.shape[0], `${what} ${n}`).toBe(rows.length);
        expectNear(got[n]!.data, rows.flat(), `${what} ${n}`);
      });
    compare(queries, query, 'query');
    compare(documents, document, 'document');
    scores.forEach((row, n) => {
      expectNear(maxSim(queries[n]!, documents, { lengthNormalize }), row, `scores of query ${n}`);
    });
    expect(await model.embedTokens(texts[1]!, { promptName: 'query' })).toEqual([queries[1]]); // alone as in a list
  });
});

describe.each(named('sparse-'))('%s', (name) => {
  const { texts, ...expected } = expectedOf(name) as { texts: string[] } & Record<string, Record<string, number>[]>;

  test.each([false, true])("has sentence-transformers' sparse vectors (worker: %s)", async (worker) => {
    using model = await heed.fromPretrained(worker ? bytesOf(root + name) : root + name, { worker, strict: true });
    const compare = (got: SparseVector[], rows: Record<string, number>[], what: string) =>
      rows.forEach((row, n) => {
        expect([...got[n]!.indices], `${what} ${n}`).toEqual(Object.keys(row).map(Number));
        expectNear(got[n]!.values, Object.values(row), `${what} ${n}`);
      });
    compare(await model.embedSparse(texts), expected.encode!, 'without a role');
    compare(await model.embedSparse(texts, { promptName: 'query' }), expected.query!, 'query');
    compare(await model.embedSparse(texts, { promptName: 'document' }), expected.document!, 'document');
  });
});

describe.each(named('pairs-'))('%s', (name) => {
  type Scores = (number | number[])[];
  const expected = expectedOf(name) as { pairs: [string, string][]; raw: Scores; default: Scores };

  test.each([false, true])("has sentence-transformers' scores (worker: %s)", async (worker) => {
    using model = await heed.fromPretrained(worker ? bytesOf(root + name) : root + name, { worker, strict: true });
    const [queries, textPairs] = [expected.pairs.map(([query]) => query), expected.pairs.map(([, text]) => text)];
    const { logits } = await model.predict('sequence-classification', queries, { textPairs });
    expectNear(logits.data, expected.raw.flat(), 'logits');
    if (logits.shape[1] !== 1) return;
    const [query] = queries;
    const documents = expected.pairs.flatMap(([each, text]) => (each === query ? [text] : []));
    for (const [activation, scores] of [
      ['identity', expected.raw],
      ['default', expected.default],
    ] as const) {
      const ranked = await rerank(model, query!, documents, { activation });
      expectNear(
        ranked.sort((a, b) => a.index - b.index).map(({ score }) => score),
        scores.filter((_, i) => queries[i] === query).flat(),
        activation,
      );
    }
  });
});

describe('chat templates', () => {
  const { messages, cases } = JSON.parse(readFileSync(`${root}chat-templates.json`, 'utf8')) as {
    messages: { role: string; content: string }[][];
    cases: { name: string; template: string; rendered: string[] }[];
  };
  const settings = { format: 'auto', options: {}, restoresEnd: true, onlyPairs: false } as const;

  test.each(cases)("$name: transformers' texts", ({ template: source, rendered }) => {
    const template = new ChatTemplate(source, 'chat_template.jinja', false, 'qwen3', settings, { bos_token: '<s>' });
    const contentOf = (chat: (typeof messages)[0], role: string) => chat.find((each) => each.role === role)?.content;
    messages.forEach((chat, n) => {
      const text = contentOf(chat, 'query') ?? contentOf(chat, 'user')!;
      const input = { text, pair: contentOf(chat, 'document'), prompt: contentOf(chat, 'system') ?? '' };
      expect(template.render({ ...input, task: undefined })).toBe(rendered[n]);
    });
  });

  test('of a list of named ones, with the task', async () => {
    const files = bytesOf(`${root}pairs-judge`);
    delete files['chat_template.jinja'];
    const config = JSON.parse(new TextDecoder().decode(files['tokenizer_config.json']));
    const own = "{{ messages | map(attribute='content') | join(' ') }}{{ eos_token }}{{ task }}";
    const withTemplate = (template: unknown) => ({
      ...files,
      'tokenizer_config.json': JSON.stringify({ ...config, chat_template: template }),
    });
    const named = [
      { name: 'other', template: 'x' },
      { name: 'default', template: own },
    ];
    for (const template of [own, named]) {
      using model = await heed.fromPretrained(withTemplate(template));
      const { tokens } = await model.tokenize('the fox', { textPairs: 'a' });
      expect(tokens[0]!.join('').replaceAll('Ġ', ' ')).toBe('the fox a<|im_end|>');
    }
    await expect(heed.fromPretrained(withTemplate(named.slice(0, 1)))).rejects.toThrow("a template named 'default'");
    await expect(heed.fromPretrained(withTemplate(undefined))).rejects.toThrow("as modality_config has 'message'");
    await expect(heed.fromPretrained(withTemplate('{% for'))).rejects.toMatchObject({ code: 'INVALID_FILE' });
    using users = await heed.fromPretrained(
      withTemplate("{{ messages | selectattr('role', 'eq', 'user') | list | length }}"),
    );
    await expect(rerank(users, 'a', ['b'])).rejects.toThrow("one that leaves out 'query' and 'document'");
  });
});

test('the prompt of a reranker is the instruction of its template', async () => {
  using model = await heed.fromPretrained(`${root}pairs-judge`);
  const [[own], [named], [other], [none]] = await Promise.all([
    rerank(model, 'the fox', ['a dog']),
    rerank(model, 'the fox', ['a dog'], { promptName: 'web' }),
    rerank(model, 'the fox', ['a dog'], { prompt: 'what is it' }),
    rerank(model, 'the fox', ['a dog'], { promptName: 'none' }),
  ]);
  expect(named).toEqual(own);
  expect(new Set([own, other, none].map((hit) => hit!.score)).size).toBe(3);
});

test('weights of tokens in a JSON file', async () => {
  const files = bytesOf(`${root}sparse-inference-free`);
  const within = 'query_0_SparseStaticEmbedding/';
  delete files[`${within}model.safetensors`];
  const json = (value: object) => JSON.stringify(value);
  const idf = { fox: 2.5, red: 0.5, unknown: 3, '[CLS]': 1 };
  using model = await heed.fromPretrained({
    ...files,
    [`${within}config.json`]: json({ path: 'idf.json' }),
    'idf.json': json(idf),
  });
  const [vector] = await model.embedSparse('fox the red red fox', { promptName: 'query' });
  expect([...vector!.values].sort()).toEqual([0.5, 2.5]);
  await expect(model.embedQuery('fox')).rejects.toThrow('embed: expected a model of dense vectors');
  await expect(
    heed.fromPretrained({
      ...files,
      [`${within}config.json`]: json({ path: 'idf.json' }),
      'idf.json': json({ fox: 'x' }),
    }),
  ).rejects.toThrow('idf.json: expected a number for each token, got "x"');
});

test('says what is not supported', async () => {
  const refused = async (folder: string, changes: Record<string, object>, message: string) => {
    const files = bytesOf(root + folder) as Record<string, Uint8Array | string>;
    for (const [path, change] of Object.entries(changes)) {
      const old = JSON.parse(new TextDecoder().decode(files[path] as Uint8Array));
      files[path] = JSON.stringify(Array.isArray(old) ? [...old, change] : { ...old, ...change });
    }
    await expect(
      heed.fromPretrained(files).then(async (model) => {
        using used = model;
        await used.embedTokens('the fox', { promptName: 'query' });
      }),
    ).rejects.toThrow(message);
  };
  const bert = 'sentence_bert_config.json';
  const expansion = { strategy: 'fixed', length: 12 };
  await refused('tokens-fixed', { [bert]: { query_expansion: { ...expansion, strategy: 'max' } } }, "'fixed' or 'min'");
  await refused('tokens-fixed', { [bert]: { query_expansion: { strategy: 'fixed' } } }, 'length: expected');
  await refused('tokens-fixed', { [bert]: { query_expansion: { ...expansion, width: 3 } } }, 'width: expected one of');
  await refused('tokens-fixed', { [bert]: { query_expansion: { ...expansion, token: '[X]' } } }, "the token '[X]'");
  await refused('tokens-fixed', { [bert]: { query_expansion: { ...expansion, length: 99 } } }, 'at most 48');
  await refused('tokens-fixed', { [bert]: { query_length: 3 } }, 'query_length: expected at least 12');
  await refused(
    'tokens-fixed',
    { 'tokenizer_config.json': { padding_side: 'left' } },
    "padding_side: expected 'right'",
  );
  await refused('tokens-fixed', { '2_MultiVectorMask/config.json': { keep_only_token_ids: 3 } }, 'a list of ids');
  const pooling = 'sentence_transformers.multi_vector_encoder.modules.token_pooling.LambdaTokenPooling';
  await refused('tokens-fixed', { 'modules.json': { path: '3_Normalize', type: pooling } }, 'LambdaTokenPooling');
  const normalize = { path: '3_Normalize', type: 'sentence_transformers.base.modules.normalize.Normalize' };
  await refused('tokens-pooled-tokens', { 'modules.json': normalize }, 'HierarchicalTokenPooling as the last module');
  await refused(
    'tokens-pooled-tokens',
    { '4_HierarchicalTokenPooling/config.json': { pool_factor: 0 } },
    'pool_factor',
  );
  await refused('sparse-auto-encoder', { '2_SparseAutoEncoder/config.json': { input_dim: 7 } }, 'width 12');
  await refused('sparse-auto-encoder', { 'config_sentence_transformers.json': { max_active_dims: 40 } }, 'at most 30');
  await refused(
    'sparse-auto-encoder',
    { 'modules.json': { ...normalize, path: '1_Pooling' } },
    'only SparseStaticEmbedding',
  );
  await refused('pairs-judge', { '1_LogitScore/config.json': { module_input_name: 'x' } }, "that gives 'x'");
  await refused('pairs-judge', { '1_LogitScore/config.json': { true_token_id: 999 } }, 'true_token_id');
  const processing = { processing_kwargs: { chat_template: { continue_final_message: true } } };
  await refused('pairs-judge', { [bert]: processing }, 'continue_final_message');
});
