import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { load } from 'heed';
import { describe, expect, test } from 'vitest';
import { bytesOf, expectClose, fixture, fixtures } from './fixtures.js';

const heed = await load();
const files = bytesOf(`${fixtures}bert`);
const { expected, input } = fixture('bert');

async function expectRight(source: Parameters<typeof heed.fromPretrained>[0], options = {}): Promise<void> {
  using model = await heed.fromPretrained(source, options);
  expectClose(await model.embed(input, { normalize: true }), expected.get('mean'));
}

describe('a folder of this machine', () => {
  const url = pathToFileURL(`${fixtures}bert/`);

  test('by its URL, as a whole or file by file', async () => {
    await expectRight(url);
    await expectRight(url.href);
    const named = (name: string) => new URL(name, url);
    await expectRight({ 'config.json': named('config.json'), 'model.safetensors': named('model.safetensors') });
    await expect(heed.fromPretrained({ 'config.json': named('none.json') })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('none.json: expected a file, got none'),
    });
    await expect(heed.fromPretrained(new URL('none/', url))).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringMatching(/source: expected a folder's URL, got file:.*none\/, which is not a folder/),
    });
  });

  test('whose weights go away while it is read', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'heed-folder-'));
    for (const [name, bytes] of Object.entries(files)) writeFileSync(join(folder, name), bytes);
    const onProgress = () => rmSync(join(folder, 'model.safetensors'), { force: true });
    await expect(heed.fromPretrained(folder, { onProgress })).rejects.toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('model.safetensors: cannot be read (ENOENT'),
    });
    rmSync(folder, { recursive: true });
  });
});

describe('bytes', () => {
  test('as Uint8Array, ArrayBuffer, Blob and strings', async () => {
    const weights = files['model.safetensors']!;
    const config = new TextDecoder().decode(files['config.json']);
    await expectRight(files);
    await expectRight({ 'config.json': config, 'model.safetensors': weights.slice().buffer });
    await expectRight({ 'config.json': config, 'model.safetensors': new Blob([weights.slice()]) });
    await expectRight({ 'config.json': config, 'model.safetensors': new DataView(weights.slice().buffer) });
    await expect(heed.fromPretrained({ 'config.json': 3 } as never)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });

  test('as the files of a dropped folder', async () => {
    const list = Object.entries(files).map(([name, bytes]) =>
      Object.defineProperty(new File([bytes.slice()], name.split('/').at(-1)!), 'webkitRelativePath', {
        value: `some/folder/${name}`,
      }),
    );
    await expectRight(list);
  });

  test('at odd places in a larger buffer', async () => {
    const weights = files['model.safetensors']!;
    const shifted = new Uint8Array(weights.length + 3);
    shifted.set(weights, 3);
    await expectRight({ ...files, 'model.safetensors': shifted.subarray(3) });
  });
});

test('weights in shards', async () => {
  const length = Number(
    new DataView(files['model.safetensors']!.buffer, files['model.safetensors']!.byteOffset).getBigUint64(0, true),
  );
  const bytes = files['model.safetensors']!;
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length))) as Record<
    string,
    { data_offsets: [number, number] }
  >;
  const shard = (names: string[]) => {
    const parts: Uint8Array[] = [];
    let at = 0;
    const own = Object.fromEntries(
      names.map((name) => {
        const [from, to] = header[name]!.data_offsets;
        parts.push(bytes.subarray(8 + length + from, 8 + length + to));
        at += to - from;
        return [name, { ...header[name], data_offsets: [at - (to - from), at] }];
      }),
    );
    const json = new TextEncoder().encode(JSON.stringify(own));
    const prefix = new Uint8Array(8);
    new DataView(prefix.buffer).setBigUint64(0, BigInt(json.length), true);
    return Uint8Array.from([...prefix, ...json, ...parts.flatMap((part) => [...part])]);
  };
  const names = Object.keys(header);
  const first = names.filter((_, i) => i % 2 === 0);
  const second = names.filter((_, i) => i % 2 === 1);
  const index = {
    metadata: { total_size: bytes.length },
    weight_map: Object.fromEntries(names.map((name, i) => [name, `model-0000${(i % 2) + 1}-of-00002.safetensors`])),
  };
  const sharded = {
    'config.json': files['config.json']!,
    'model.safetensors.index.json': JSON.stringify(index),
    'model-00001-of-00002.safetensors': shard(first),
    'model-00002-of-00002.safetensors': shard(second),
  };
  await expectRight(sharded);
  const { 'model-00002-of-00002.safetensors': _, ...partial } = sharded;
  await expect(heed.fromPretrained(partial)).rejects.toMatchObject({ code: 'NOT_FOUND' });
  const outside = {
    ...sharded,
    'model.safetensors.index.json': JSON.stringify({ weight_map: { x: '../secret.safetensors' } }),
  };
  await expect(heed.fromPretrained(outside)).rejects.toMatchObject({ code: 'INVALID_FILE' });
});
