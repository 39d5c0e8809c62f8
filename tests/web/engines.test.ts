/** Errors for engines without a required feature, and for missing workers and packed files. */
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load } from 'heed';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { tinyModel } from './models/tiny.js';

const bytes = readFileSync(new URL('../../dist/heed-simd128.wasm', import.meta.url));
const own = () => new Uint8Array(bytes);

describe('an engine', () => {
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
  });

  it('without WebAssembly is refused', async () => {
    vi.stubGlobal('WebAssembly', undefined);
    await expect(load({ wasm: own() })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining(', got an engine without WebAssembly'),
    });
  });

  it('without SIMD is refused', async () => {
    vi.spyOn(WebAssembly, 'validate').mockReturnValue(false);
    await expect(load({ wasm: own() })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining('without WebAssembly SIMD'),
    });
  });

  it('without relaxed SIMD gets the other build, and a reason', async () => {
    const simdOnly = () => vi.spyOn(WebAssembly, 'validate').mockReturnValueOnce(true).mockReturnValueOnce(false);
    simdOnly();
    await expect(load({ build: 'relaxed-simd', wasm: own() })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
      message: expect.stringContaining("'simd128'"),
    });
    simdOnly();
    using heed = await load({ wasm: own() });
    expect(heed.info).toMatchObject({ build: 'simd128', reason: 'the engine has no relaxed SIMD' });
  });

  // Like JavaScriptCore, which supports relaxed_swizzle, but not the dot products.
  it.each([0x105, 0x106, 0x10b, 0x112, 0x113])('without instruction %i gets the other build', async (opcode) => {
    const encoded = Buffer.from([0xfd, (opcode & 0x7f) | 0x80, opcode >> 7]);
    const { validate } = WebAssembly;
    vi.spyOn(WebAssembly, 'validate').mockImplementation(
      (module) => !Buffer.from(module as Uint8Array<ArrayBuffer>).includes(encoded) && validate(module),
    );
    using heed = await load({ wasm: own() });
    expect(heed.info).toMatchObject({ build: 'simd128', reason: 'the engine has no relaxed SIMD' });
  });
});

describe('a pool of workers', () => {
  it('is as large as there are cores', async () => {
    const heed = await load();
    using model = await heed.fromPretrained(tinyModel(), { workers: 'auto' });
    expect(model.workers.reason).toMatch(/cores/);
    expect(model.workers.count).toBeGreaterThan(0);
    expect((await model.embed(['the fox', 'x'])).shape).toEqual([2, 24]);
  });

  it('is all or nothing', async () => {
    const heed = await load();
    await expect(heed.fromPretrained({ 'config.json': '{' }, { workers: 2 })).rejects.toMatchObject({
      code: 'INVALID_FILE',
    });
  });
});

it('a packed file is closed again where the load fails', async () => {
  const heed = await load();
  const folder = mkdtempSync(join(tmpdir(), 'heed-closed-'));
  const file = join(folder, 'model.safetensors');
  const pack = (metadata: object) => {
    const header = Buffer.from(JSON.stringify({ __metadata__: metadata }));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    writeFileSync(file, Buffer.concat([length, header, new Uint8Array(2 ** 21)])); // exceeds the bytes that are read for the header
  };
  const openFiles = () =>
    readdirSync('/proc/self/fd').map((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`);
      } catch {
        return '';
      }
    });
  try {
    for (const [metadata, code] of [
      [{ 'config.json': '{"model_type":"gpt2"}' }, 'UNSUPPORTED'],
      [{ 'config.json': { model_type: 'bert' } }, 'INVALID_FILE'],
      [{}, 'INVALID_FILE'],
    ] as const) {
      pack(metadata);
      await expect(heed.fromPretrained(file)).rejects.toMatchObject({ code });
      expect(openFiles()).not.toContain(file);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('a packed file whose small files are no texts is refused', async () => {
  const heed = await load();
  const folder = mkdtempSync(join(tmpdir(), 'heed-packed-'));
  const file = join(folder, 'model.safetensors');
  try {
    const header = Buffer.from('{"__metadata__":{"config.json":{"model_type":"bert"}}}');
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    writeFileSync(file, Buffer.concat([length, header]));
    await expect(heed.fromPretrained(file)).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining('expected __metadata__ with strings by name, got {'),
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

it('a single file into which no folder was packed says what it lacks', async () => {
  const heed = await load();
  const folder = mkdtempSync(join(tmpdir(), 'heed-engines-'));
  const file = join(folder, 'model.safetensors');
  try {
    writeFileSync(file, tinyModel()['model.safetensors']!);
    await expect(heed.fromPretrained(file)).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining("no 'config.json' in the header's metadata"),
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
