/** `save` reads the model's folder again. If it has been replaced, the result would be a mixture of two models. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { load, type TrainingHeed } from 'heed/train';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { FileRecord } from '../../../web/src/io/file-record.js';
import type { ModelFolder, OpenFile } from '../../../web/src/io/files.js';
import { tinyModel } from '../models/tiny.js';

let heed: TrainingHeed;
let folder: string;
beforeAll(async () => {
  heed = await load();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'heed-replaced-'));
  write(tinyModel());
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(files: Record<string, Uint8Array | string>): void {
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
}

const weightsOf = () => tinyModel()['model.safetensors'] as Uint8Array;
/** The tiny model with another value in the last weight. */
function otherWeights(): Uint8Array {
  const bytes = weightsOf().slice();
  bytes[bytes.length - 2]! ^= 1;
  return bytes;
}

describe('save of a model whose folder has changed', () => {
  it.each<[string, () => Uint8Array | string, object]>([
    ['model.safetensors', otherWeights, { trainable: true }],
    ['model.safetensors', otherWeights, {}],
    ['tokenizer.json', () => (tinyModel()['tokenizer.json'] as string).replace('fox', 'foe'), {}],
    ['config.json', () => `${Buffer.from(tinyModel()['config.json']!)} `, { trainable: true, worker: true }],
  ])('is rejected if %s was replaced (%#)', async (name, content, options) => {
    const model = await heed.fromPretrained(folder, options);
    await model.save();
    write({ [name]: content() });
    await expect(model.save()).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringMatching(new RegExp(`${name}.*: expected the file that the model was loaded from`)),
    });
    write(tinyModel());
    expect(Object.keys(await model.save())).toContain(name);
    model.dispose();
  });

  it('is not rejected if these are the files that it saved itself', async () => {
    const model = await heed.fromPretrained(folder, { trainable: true });
    const pairs = [
      { a: 'x', b: 'quick fox' },
      { a: 'y', b: 'brown fox' },
    ];
    for (const epochs of [1, 2]) {
      await heed.trainEmbedding(model, pairs, { epochs, batchSize: 2, lr: 1e-3, seed: 1 });
      write(await model.save());
    }
    const again = await heed.fromPretrained(folder);
    expect((await again.embed('x fox')).data).toEqual((await model.embed('x fox')).data);
  });
});

it('reads a file of many chunks as the same whatever its chunks are, and passes on which are released', async () => {
  const bytes = Uint8Array.from({ length: 5 * 2 ** 20 }, (_, i) => (i * 2654435761) >>> 24);
  const released: unknown[] = [];
  const folderOf = (content: Uint8Array, size: number): ModelFolder => {
    const open = async (): Promise<OpenFile> => ({
      name: 'a file',
      size: content.length,
      chunks() {
        let at = 0;
        const next = async (...given: unknown[]) => {
          released.push(...given);
          const value = content.subarray(at, at + size);
          at += size;
          return value.length > 0 ? { done: false as const, value } : { done: true as const, value: undefined };
        };
        return { [Symbol.asyncIterator]: () => ({ next }) };
      },
    });
    return { open: open as ModelFolder['open'] };
  };
  const read = async (folder: ModelFolder) => {
    const iterator = (await folder.open('a', { required: true })).chunks()[Symbol.asyncIterator]();
    const next = iterator.next as (release: boolean) => Promise<IteratorResult<Uint8Array>>;
    while (!(await next.call(iterator, true)).done);
  };
  const record = new FileRecord();
  await read(record.recording(folderOf(bytes, 65_536)));
  expect(new Set(released)).toEqual(new Set([true]));
  for (const size of [1_000_003, 17_389, bytes.length]) await read(record.requiring(folderOf(bytes, size)));
  const changed = bytes.slice();
  for (let i = 2 ** 22; i < changed.length; i++) changed[i]! ^= 255; // another model has other bytes everywhere
  await expect(read(record.requiring(folderOf(changed, 65_536)))).rejects.toThrow('got another one');
  await expect(read(record.requiring(folderOf(bytes.subarray(1), 65_536)))).rejects.toThrow('got another one');
});
