/** Metadata, replacement, prompts of queries, and search while a text is typed. */
import { type EmbedFunction, load, type TextHit, type TextIndex } from 'heed';
import { afterAll, describe, expect, test } from 'vitest';

const heed = await load();
afterAll(() => heed.dispose());

const error = (code: string, message: string) =>
  expect.objectContaining({ name: 'HeedError', code, message: expect.stringContaining(message) });
const Index = heed.TextIndex;
const AXES = [
  [1, 0, 0, 0, 0, 0, 0, 0],
  [0, 1, 0, 0, 0, 0, 0, 0],
  [0, 0, 1, 0, 0, 0, 0, 0],
];
/** Embeds a text as the axis that its last letter names; other texts as the sum of all. */
const byLetter: EmbedFunction = (texts) =>
  texts.map((text) => AXES['abc'.indexOf(text.at(-1)!)] ?? [1, 1, 1, 0, 0, 0, 0, 0]);

describe('metadata', () => {
  test('hits and filters have the metadata of their texts, also after saving and removal', async () => {
    const index = Index.of<unknown>(['a', 'b', 'c'], AXES, { metadata: [{ page: 1 }, 'two\nlines', null] });
    const byText = ({ metadata }: { metadata?: unknown }) => typeof metadata === 'string';
    expect(index.search(AXES[0]!, { topK: 1 })).toEqual([
      { index: 0, id: 0, text: 'a', score: 1, metadata: { page: 1 } },
    ]);
    expect(index.search(AXES[0]!, { filter: byText }).map(({ text }) => text)).toEqual(['b']);
    await index.remove([0]);
    await index.add(['d'], [AXES[0]!], { metadata: [['list', 2.5]] });
    await index.add(['e'], [AXES[0]!]);
    const loaded = await Index.load(await index.save());
    for (const each of [index, loaded])
      expect(
        each.search([1, 1, 1, 0, 0, 0, 0, 0], { topK: 9 }).sort((p, q) => Number(p.id) - Number(q.id)),
      ).toMatchObject([
        { id: 1, text: 'b', metadata: 'two\nlines' },
        { id: 2, text: 'c', metadata: null },
        { id: 3, text: 'd', metadata: ['list', 2.5] },
        { id: 4, text: 'e' },
      ]);
    index.dispose();
    loaded.dispose();
  });

  test('the first metadata may come with a later text; an index without any has none', async () => {
    const index = Index.of(['a'], [AXES[0]!]);
    expect(index.search(AXES[0]!)[0]).not.toHaveProperty('metadata');
    await index.add(['b'], [AXES[1]!], { metadata: [7] });
    const [a, b] = index.search(AXES[0]!);
    expect(a).not.toHaveProperty('metadata');
    expect(b).toMatchObject({ metadata: 7 });
    index.dispose();
  });

  test('metadata are copied', async () => {
    const given = { tags: ['x'] };
    const index = Index.of(['a'], [AXES[0]!], { metadata: [given] });
    given.tags.push('y');
    expect(index.search(AXES[0]!)[0]!.metadata).toEqual({ tags: ['x'] });
    index.dispose();
  });

  test('metadata that cannot be stored are rejected', async () => {
    const cyclic: Record<string, unknown> = {};
    cyclic.self = cyclic;
    for (const odd of [() => 0, undefined, 1n, cyclic])
      expect(() => Index.of(['a'], [AXES[0]!], { metadata: [odd] })).toThrow(
        expect.objectContaining({ name: 'HeedError', message: expect.stringContaining('metadata[0]') }),
      );
    expect(() => Index.of(['a'], [AXES[0]!], { metadata: [] })).toThrow(error('INVALID_ARGUMENT', 'one per text'));
    expect(() => Index.of(['a'], [AXES[0]!], { metadata: {} as never })).toThrow(error('INVALID_ARGUMENT', 'array'));
  });

  test('have a type, which hits, filters and later texts share', async () => {
    const index = Index.of(['a', 'b'], AXES.slice(0, 2), { metadata: [{ page: 1 }, { page: 2 }] });
    await index.add(['c'], [AXES[2]!], { metadata: [{ page: 3 }] });
    // @ts-expect-error: metadata of another type
    await index.update(2, { metadata: { title: 'x' } });
    await index.update(2, { metadata: { page: 4 } });
    const isLate = ({ metadata }: { metadata?: { page: number } | undefined }) => (metadata?.page ?? 0) > 1;
    const pages = index.search([0, 1, 2, 0, 0, 0, 0, 0], { filter: isLate }).map(({ metadata }) => metadata?.page);
    expect(pages).toEqual([4, 2]);
    const loaded = await Index.load<{ page: number }>(await index.save());
    expect(loaded.get(1)?.metadata?.page).toBe(2);
    await loaded.remove(({ metadata }) => metadata?.page === 2);
    expect(loaded.texts).toEqual(['a', 'c']);
  });

  test('a text replaces that with its id', async () => {
    const index = Index.of(['a', 'b', 'c'], AXES, { metadata: [1, 2, 3] });
    await expect(index.add(['B'], [AXES[2]!], { ids: [1] })).rejects.toEqual(
      error('INVALID_ARGUMENT', 'replace: true'),
    );
    await expect(index.add(['B'], [AXES[2]!], { replace: true })).rejects.toEqual(error('INVALID_ARGUMENT', '`ids`'));
    await expect(index.add(['B', 'B'], [AXES[2]!, AXES[2]!], { ids: [1, 1], replace: true })).rejects.toEqual(
      error('INVALID_ARGUMENT', 'ids[1]'),
    );
    expect(
      await index.add(['B', 'new'], [AXES[2]!, AXES[0]!], { ids: [1, 8], replace: true, metadata: [20, 80] }),
    ).toEqual([1, 8]);
    const rows = (each: TextIndex) =>
      each.search([3, 2, 1, 0, 0, 0, 0, 0], { topK: 9 }).map(({ id, text, metadata }) => [id, text, metadata]);
    const expected = [
      [0, 'a', 1],
      [8, 'new', 80],
      [2, 'c', 3],
      [1, 'B', 20],
    ];
    expect(rows(index)).toEqual(expected);
    expect(index.texts).toEqual(['a', 'c', 'B', 'new']);
    const loaded = await Index.load(await index.save());
    expect(rows(loaded)).toEqual(expected);
    expect(await index.add(['next'], [AXES[0]!])).toEqual([9]);
    index.dispose();
    loaded.dispose();
  });

  test('a query may have a prompt', async () => {
    const seen: string[][] = [];
    const embed: EmbedFunction = (texts, options) => {
      seen.push([...texts]);
      return byLetter(texts, options);
    };
    const index = await Index.of(embed, ['a', 'b']);
    seen.length = 0;
    const [best] = await index.search('b', { prompt: 'query: ' });
    expect(best!.text).toBe('b');
    await index.searchAll(['a'], { prompt: '' });
    expect(seen).toEqual([['query: b'], ['a']]);
    const model = await heed.fromPretrained();
    const own = await Index.of(model, ['a small cat', 'a fast car']);
    const [hit] = await own.search('kitten', { prompt: 'small ' });
    const [same] = await own.search('small kitten');
    expect(hit).toEqual(same);
    index.dispose();
    own.dispose();
    model.dispose();
  });
});

describe('searchLatest', () => {
  /** An embedder that answers when the test says so. */
  function controlled() {
    const pending: { text: string; signal: AbortSignal; answer: () => void; fail: (error: Error) => void }[] = [];
    let isOpen = true;
    const embed: EmbedFunction = (texts, options) => {
      if (isOpen) return byLetter(texts, options);
      return new Promise((resolve, reject) => {
        const signal = options.signal as AbortSignal;
        pending.push({
          text: texts[0]!,
          signal,
          answer: () => resolve(byLetter(texts, options)),
          fail: reject,
        });
        signal.addEventListener('abort', () => reject(signal.reason as Error));
      });
    };
    return { embed, pending, close: () => (isOpen = false) };
  }

  test('only the latest text has hits, and earlier searches are stopped', async () => {
    const { embed, pending, close } = controlled();
    const index = await heed.TextIndex.of(embed, ['a', 'b', 'c']);
    close();
    const shown: [string, string | undefined][] = [];
    const onInput = index.searchLatest((hits, text) => shown.push([text, hits[0]?.text]), { topK: 1 });
    const first = onInput('xa');
    const second = onInput('xb');
    await first; // resolves although its search was stopped
    expect(pending.map(({ text, signal }) => [text, signal.aborted])).toEqual([
      ['xa', true],
      ['xb', false],
    ]);
    pending[1]!.answer();
    await second;
    expect(shown).toEqual([['xb', 'b']]);
  });

  test('an empty text has no hits and is not embedded', async () => {
    const { embed, pending, close } = controlled();
    const index = await heed.TextIndex.of(embed, ['a']);
    close();
    const shown: TextHit[][] = [];
    const onInput = index.searchLatest((hits) => shown.push(hits));
    const stopped = onInput('a');
    await onInput(' ');
    await stopped;
    expect(shown).toEqual([[]]);
    expect(pending[0]!.signal.aborted).toBe(true);
  });

  test('errors of the latest search reach the caller, those of earlier ones do not', async () => {
    const { embed, pending, close } = controlled();
    const index = await heed.TextIndex.of(embed, ['a']);
    close();
    const onInput = index.searchLatest(() => expect.unreachable());
    const first = onInput('a');
    const second = onInput('b');
    pending[0]!.fail(new Error('first'));
    pending[1]!.fail(new Error('second'));
    await first;
    await expect(second).rejects.toThrow('second');
    await expect(onInput(3 as never)).rejects.toEqual(error('INVALID_ARGUMENT', 'text'));
    expect(() => index.searchLatest(undefined as never)).toThrow(error('INVALID_ARGUMENT', 'onHits'));
    expect(() => heed.TextIndex.of().searchLatest(() => {})).toThrow(error('INVALID_ARGUMENT', 'searchLatest'));
  });
});

test('files with damaged metadata are rejected', async () => {
  const index = heed.TextIndex.of(['a'], [AXES[0]!], { metadata: ['value'] });
  const bytes = await index.save();
  const text = new TextDecoder('latin1').decode(bytes);
  const at = text.lastIndexOf('"value"\n');
  for (const damaged of ['"valu\\"\n', '1       ', '"a"\n"b"\n', '"\xff\xff\xff"\n ']) {
    const copy = bytes.slice();
    for (let i = 0; i < 8; i++) copy[at + i] = damaged.charCodeAt(i);
    await expect(heed.TextIndex.load(copy)).rejects.toEqual(error('INVALID_FILE', "tensor 'metadata'"));
  }
});

test('files with damaged lists of surrogates, or of texts without metadata, are rejected', async () => {
  const index = heed.TextIndex.of(['a\ud83e', 'b'], AXES.slice(0, 2));
  await index.add(['c'], [AXES[2]!], { metadata: [null] });
  const bytes = await index.save();
  const length = new DataView(bytes.buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  const damaged = async (tensor: string, entry: number, value: number) => {
    const copy = bytes.slice();
    new DataView(copy.buffer).setUint32(8 + length + header[tensor].data_offsets[0] + 4 * entry, value, true);
    await expect(heed.TextIndex.load(copy)).rejects.toEqual(error('INVALID_FILE', `tensor '${tensor}'`));
  };
  expect(header.surrogates.shape).toEqual([1, 3]);
  for (const [entry, value] of [[0, 1], [0, 9], [1, 0], [1, 2], [2, 65], [2, 0xe000]] as const) // biome-ignore format: one row
    await damaged('surrogates', entry, value);
  expect(header.without_metadata.shape).toEqual([2]);
  for (const value of [2 ** 31, 3]) await damaged('without_metadata', 0, value);
});
