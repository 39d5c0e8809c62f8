/** heed/semantic-embedder: the interface of Chrome's SemanticEmbedder. */
import { load } from 'heed';
import { semanticEmbedder } from 'heed/semantic-embedder';
import { expect, test } from 'vitest';
import { tinyModel } from './models/tiny.js';

const heed = await load();
const prompts = { query: 'the ', document: 'x ', STS: 'y ' };
const folder = {
  ...tinyModel(),
  'config_sentence_transformers.json': JSON.stringify({ prompts, default_prompt_name: 'query' }),
};
const SemanticEmbedder = semanticEmbedder((options) => heed.fromPretrained(folder, options));

test('is available once it has been created, and reports the download', async () => {
  expect(await SemanticEmbedder.availability()).toBe('downloadable');
  const loaded: number[] = [];
  const creating = SemanticEmbedder.create({
    monitor: (monitor) => monitor.addEventListener('downloadprogress', (event) => loaded.push(event.loaded)),
  });
  expect(await SemanticEmbedder.availability()).toBe('downloading');
  const embedder = await creating;
  expect(await SemanticEmbedder.availability()).toBe('available');
  expect([loaded[0], loaded.at(-1)]).toEqual([0, 1]);
  expect(loaded).toEqual([...loaded].sort((a, b) => a - b));
  embedder.destroy();
});

test('embeds with the prompt of the task, and without one as the text is', async () => {
  const embedder = await SemanticEmbedder.create();
  using model = await heed.fromPretrained(folder);
  const values = async (text: string, taskType?: 'retrieval-query') =>
    (await embedder.embed(text, taskType && { taskType })).embeddings[0]!.values;
  const of = async (text: string) => (await model.embed(text, { prompt: '' })).data;
  expect(await values('fox')).toEqual(await of('fox'));
  expect(await values('fox', 'retrieval-query')).toEqual(await of('the fox'));
  const { embeddings } = await embedder.embed(['fox', 'quick fox'], { taskType: 'retrieval-document' });
  expect(embeddings).toEqual([{ values: await of('x fox') }, { values: await of('x quick fox') }]);
  expect((await embedder.embed('fox', { taskType: 'semantic-similarity' })).embeddings[0]!.values).toEqual(
    await of('y fox'),
  );
  // The folder has no prompt for this task.
  expect((await embedder.embed('fox', { taskType: 'clustering' })).embeddings[0]!.values).toEqual(await of('fox'));
  expect(await embedder.embed([])).toEqual({ embeddings: [] });
  embedder.destroy();
});

test('throws what a browser throws', async () => {
  expect(() => semanticEmbedder(3 as never)).toThrow('semanticEmbedder: load: expected a function');
  expect(() => new (SemanticEmbedder as unknown as new () => object)()).toThrow(TypeError);
  await expect(SemanticEmbedder.create({ signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
  const embedder = await SemanticEmbedder.create();
  await expect(embedder.embed('a', { taskType: 'query' as never })).rejects.toThrow(TypeError);
  await expect(embedder.embed('a', { signal: AbortSignal.abort(new Error('enough')) })).rejects.toThrow('enough');
  embedder.destroy();
  embedder.destroy();
  await expect(embedder.embed('a')).rejects.toMatchObject({ name: 'InvalidStateError' });
});

test('is downloadable again after a load that failed', async () => {
  const failing = semanticEmbedder(() => Promise.reject(new Error('no network')));
  await expect(failing.create()).rejects.toThrow('no network');
  expect(await failing.availability()).toBe('downloadable');
});

/** Creates an embedder whose load reports these fractions, and returns the events of its listeners. */
async function created(shares: number[], onEvent: (loaded: number) => void, signal?: AbortSignal) {
  let disposed = 0;
  const own = semanticEmbedder(async ({ onProgress }) => {
    for (const share of shares) onProgress({ loaded: share * 1e9, total: 1e9 });
    return { ...({} as Awaited<ReturnType<typeof heed.fromPretrained>>), dispose: () => disposed++ } as never;
  });
  const monitor = (target: Parameters<NonNullable<Parameters<typeof own.create>[0]>['monitor'] & object>[0]) =>
    target.addEventListener('downloadprogress', ({ loaded }) => onEvent(loaded));
  const result = await own.create({ monitor, ...(signal && { signal }) }).catch((error: Error) => error.message);
  return { result, disposed: () => disposed };
}

test('`loaded` is a multiple of 1/65536, each value once', async () => {
  const seen: number[] = [];
  const shares = Array.from({ length: 1000 }, (_, i) => (i * Math.PI) / 3145);
  await created([...shares, 0.9999999, 1], (loaded) => seen.push(loaded));
  expect(seen.length).toBeGreaterThan(900);
  for (const loaded of seen) expect(Number.isInteger(loaded * 65536)).toBe(true);
  expect(seen).toEqual([...new Set(seen)].sort((a, b) => a - b));
  expect([seen[0], seen.at(-2)! < 1, seen.at(-1)]).toEqual([0, true, 1]);
});

// As in web-platform-tests, the listener resolves a promise, and the code that awaits it aborts.
test.each(['at once', 'asynchronously'])(
  'an abort in the last progress event rejects, and frees the model: %s',
  async (when) => {
    const stop = new AbortController();
    const { result, disposed } = await created(
      [0.5, 1],
      (loaded) => {
        if (loaded !== 1) return;
        if (when === 'at once') stop.abort(new Error('enough'));
        else void Promise.resolve().then(async () => stop.abort(await new Error('enough')));
      },
      stop.signal,
    );
    expect(result).toBe('enough');
    expect(disposed()).toBe(1);
  },
);
