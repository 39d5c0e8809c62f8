/** Objects of another realm, such as a frame, Node's vm or Jest, are not instances of this realm's classes. */
import { createContext, runInContext } from 'node:vm';
import { load, type PretrainedModel } from 'heed/train';
import { beforeAll, describe, expect, test } from 'vitest';
import { expectClose, fixture } from './models/fixtures.js';
import { bert } from './models/server.js';
import { tinyClip, tinyModel } from './models/tiny.js';

const heed = await load();
const realm = createContext({});
const foreign = <T>(code: string): T => runInContext(code, realm) as T;

/** Copies bytes into an object of the other realm, which `code` creates from `buffer`, an ArrayBuffer there. */
function bytesThere<T>(bytes: Uint8Array, code: string, buffer = 'ArrayBuffer'): T {
  const make = foreign<(bytes: Uint8Array) => T>(
    `(bytes) => { const buffer = new ${buffer}(bytes.length); new Uint8Array(buffer).set(bytes); return ${code}; }`,
  );
  return make(bytes);
}

describe('files of a model', () => {
  const { expected, input } = fixture('bert');
  const expectRight = async (convert: (bytes: Uint8Array) => unknown) => {
    const files = Object.fromEntries(Object.entries(bert).map(([name, bytes]) => [name, convert(bytes)]));
    using model = await heed.fromPretrained(files as never);
    expectClose(await model.embed(input, { normalize: true }), expected.get('mean'));
  };

  test.each([
    ['an ArrayBuffer', 'buffer'],
    ['a Uint8Array', 'new Uint8Array(buffer)'],
    ['a DataView', 'new DataView(buffer)'],
  ])('as %s', async (_, code) => {
    await expectRight((bytes) => {
      const made = bytesThere(bytes, code);
      expect(made).not.toBeInstanceOf(Object);
      return made;
    });
  });

  test('as a SharedArrayBuffer', async () => {
    await expectRight((bytes) => bytesThere(bytes, 'buffer', 'SharedArrayBuffer'));
  });

  /** Like the Blob of Jest's jsdom: a class other than Node's, with chunks of another realm. */
  class OtherBlob {
    readonly type = '';
    readonly #bytes: Uint8Array;
    constructor(bytes: Uint8Array) {
      this.#bytes = bytes;
    }
    get size() {
      return this.#bytes.length;
    }
    arrayBuffer = async () => this.#bytes.slice().buffer;
    slice = () => this;
    stream() {
      const chunk = bytesThere<Uint8Array>(this.#bytes, 'new Uint8Array(buffer)');
      return new ReadableStream({
        start(controller) {
          controller.enqueue(chunk);
          controller.close();
        },
      });
    }
  }

  test('as a Blob of another class', async () => {
    await expectRight((bytes) => new OtherBlob(bytes));
  });

  test('in a list of Files of another class', async () => {
    const files = Object.entries(bert).map(([name, bytes]) =>
      Object.assign(new OtherBlob(bytes), { name, webkitRelativePath: `model/${name}` }),
    );
    using model = await heed.fromPretrained(files);
    expectClose(await model.embed(input, { normalize: true }), expected.get('mean'));
  });

  test.each([
    ['throws', () => foreign('throw new Error("mine")')],
    ['is not one', () => 'text'],
    ['has texts', () => new ReadableStream({ start: (controller) => controller.enqueue('text') })],
  ])('as a Blob whose stream %s', async (_, stream) => {
    const file = Object.assign(new OtherBlob(bert['config.json']!), { stream });
    await expect(heed.fromPretrained({ ...bert, 'config.json': file as never })).rejects.toMatchObject({
      name: 'HeedError',
      message: expect.stringContaining('config.json'),
    });
  });
});

test('a checkpoint', () => {
  const model = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 1 })], { seed: 1 });
  const bytes = heed.saveCheckpoint({ model });
  const copy = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 1 })], { seed: 2 });
  for (const code of ['buffer', 'new Uint8Array(buffer)'])
    heed.loadCheckpoint(bytesThere(bytes, code), { model: copy });
  expect(copy.stateDict()).toEqual(model.stateDict());
});

test('a pattern of names', () => {
  const model = new heed.Sequential([new heed.Linear({ inFeatures: 2, outFeatures: 1 })]);
  model.freeze(foreign<RegExp>('/weight/'));
  expect(model.parameters().map(({ requiresGrad }) => requiresGrad)).toEqual([false, true]);
});

test('the pixels of an image', async () => {
  using model = await heed.fromPretrained(tinyClip());
  const data = Uint8Array.from({ length: 3 * 8 * 8 }, (_, i) => (i * 7) % 256);
  const vectors = [data, bytesThere<Uint8Array>(data, 'new Uint8ClampedArray(buffer)')].map((data) =>
    model.embedImages({ width: 8, height: 8, data }),
  );
  expect((await vectors[1]!).data).toEqual((await vectors[0]!).data);
});

test("an index's query", () => {
  const index = heed.TextIndex.of(
    ['north', 'east'],
    [
      [0, 1],
      [1, 0],
    ],
  );
  expect(index.search(foreign<Float32Array>('Float32Array.of(1, 0)'), { topK: 1 })[0]!.text).toBe('east');
});

describe('fine-tuning', () => {
  let model: PretrainedModel;
  beforeAll(async () => {
    model = await heed.fromPretrained(tinyModel(), { trainable: true });
  });
  const examples = [
    { text: 'the fox', label: 'a' },
    { text: 'the dog', label: 'b' },
  ];

  test('patterns and the bytes of a checkpoint', async () => {
    const states: Uint8Array[] = [];
    const options = { train: [foreign<RegExp>('/layer.0/')], epochs: 2, batchSize: 2, seed: 1 };
    await heed.trainClassifier(model, examples, { ...options, onCheckpoint: (bytes) => states.push(bytes) });
    const resume = bytesThere<Uint8Array>(states[0]!, 'new Uint8Array(buffer)');
    using again = await heed.fromPretrained(tinyModel(), { trainable: true });
    await heed.trainClassifier(again, examples, { ...options, resume });
    expect(Object.keys(again.config.labels ?? {})).toHaveLength(2);
  });
});
