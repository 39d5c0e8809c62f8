/** Folders that sentence-transformers made and ran (tests/fixtures/sentence-transformers/generate.py). */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  type EmbedOptions,
  embedLong,
  load,
  type PretrainedModel,
  rerank,
  splitPassages,
  vocabularyCoverage,
} from 'heed';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

type Rows = number[][];
interface Expected {
  texts: string[];
  prompt?: string;
  embed?: Rows | null;
  query?: Rows | null;
  document?: Rows | null;
  prompted?: Rows;
  activations?: Record<string, Rows>;
  raw?: number[] | Rows;
  default?: number[] | Rows;
}

const root = fileURLToPath(new URL('../../fixtures/sentence-transformers/', import.meta.url));
const folders = readdirSync(root, { withFileTypes: true }).filter((entry) => entry.isDirectory());
const heed = await load();
const expectedIn = (name: string) => JSON.parse(readFileSync(`${root}${name}/expected.json`, 'utf8')) as Expected;

function close({ data, shape }: { data: ArrayLike<number>; shape: readonly number[] }, rows: Rows, message: string) {
  expect(shape, message).toEqual([rows.length, rows[0]!.length]);
  rows.flat().forEach((value, i) => {
    expect(Math.abs(data[i]! - value), `${message}, entry ${i}`).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(value));
  });
}

describe.each(folders.map(({ name }) => name))('%s', (name) => {
  const { texts, prompt, activations, raw, default: activated, ...expected } = expectedIn(name);
  let model: PretrainedModel;
  beforeAll(async () => {
    model = await heed.fromPretrained(root + name, { strict: true });
  });
  afterAll(() => model.dispose());

  const calls: [key: 'embed' | 'query' | 'document' | 'prompted', (model: PretrainedModel) => Promise<never>][] = [
    ['embed', (own) => own.embed(texts) as Promise<never>],
    ['query', (own) => own.embedQuery(texts) as Promise<never>],
    ['document', (own) => own.embedDocument(texts) as Promise<never>],
    ['prompted', (own) => own.embed(texts, { prompt: prompt! } satisfies EmbedOptions) as Promise<never>],
  ];

  test.each(calls.filter(([key]) => expected[key] !== undefined))(
    "gives sentence-transformers' %s",
    async (key, run) => {
      const rows = expected[key];
      using worker = await heed.fromPretrained(root + name, { worker: true });
      for (const each of [model, worker]) {
        if (rows) close(await run(each), rows, key);
        else
          await expect(run(each)).rejects.toMatchObject({
            code: 'INVALID_ARGUMENT',
            message: /^task: expected a task/,
          });
      }
      if (rows && key === 'embed') expect(model.dimensions).toBe(rows[0]!.length);
    },
  );

  test.runIf(activations)("gives torch's activations", async () => {
    const path = '2_Dense/config.json';
    const files = Object.fromEntries(
      (readdirSync(root + name, { recursive: true }) as string[])
        .filter((file) => /\.(json|safetensors)$/.test(file))
        .map((file) => [file, readFileSync(`${root}${name}/${file}`)]),
    );
    const settings = JSON.parse(files[path]!.toString());
    for (const [activation, rows] of Object.entries(activations!)) {
      const changed = JSON.stringify({ ...settings, activation_function: `torch.nn.${activation}` });
      using own = await heed.fromPretrained({ ...files, [path]: changed });
      close(await own.embed(texts), rows, activation);
    }
  });

  test.runIf(raw)("gives the reranker's scores", async () => {
    const rows = (scores: number[] | Rows) => scores.map((row) => [row].flat());
    const pairs = texts.map(() => texts[0]!);
    const { logits } = await model.predict('sequence-classification', pairs, { textPairs: texts });
    close(logits, rows(raw!), 'raw');
    const call = rerank(model, texts[0]!, texts, { activation: 'default' });
    if (rows(raw!)[0]!.length > 1) return expect(call).rejects.toMatchObject({ code: 'UNSUPPORTED' });
    const scores = texts.map((): number[] => []);
    for (const { index, score } of await call) scores[index!] = [score];
    close({ data: scores.flat(), shape: [texts.length, 1] }, rows(activated!), 'default');
  });
});

describe('encode, tokenize and predict of a Router', () => {
  const text = ['the quick fox'];
  const alone = (route: string) => heed.fromPretrained(`${root}router-strict/${route}_0_Transformer`);

  test.each([{}, { worker: true }])('run the model of the route for the task (%o)', async (options) => {
    using model = await heed.fromPretrained(`${root}router-strict`, options);
    const outputs: number[][] = [];
    for (const task of ['query', 'document']) {
      using route = await alone(task);
      const { lastHiddenState, tokens } = await model.encode(text, { task });
      const expected = await route.encode(text);
      expect([...lastHiddenState.data]).toEqual([...expected.lastHiddenState.data]);
      expect(tokens).toEqual(expected.tokens);
      expect(await model.tokenize(text, { task })).toEqual(await route.tokenize(text));
      outputs.push([...lastHiddenState.data]);
    }
    expect(outputs[0]).not.toEqual(outputs[1]);
  });

  test('need a task if the Router has no default', async () => {
    using model = await heed.fromPretrained(`${root}router-strict`);
    const message = /^task: expected a task with a route: query, document, got no task/;
    const calls = [
      model.encode(text),
      model.tokenize(text),
      model.predict('token-classification', text),
      splitPassages(model, text[0]!),
    ];
    for (const call of calls) await expect(call).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message });
    expect(await splitPassages(model, text[0]!, { task: 'query' })).toHaveLength(1);
    const [coverage] = await vocabularyCoverage(model, text, { task: 'query' });
    expect(coverage!.words).toBe(3);
    const vectors = await embedLong(model, text);
    expect([...vectors.data]).toEqual([...(await model.embedDocument(text)).data]);
  });
});
