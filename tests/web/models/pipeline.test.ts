/** `pipeline` with the conventions of transformers.js; pipelines.test.ts has the cases of its own tests. */
import { load, type MaskFilling, pipeline } from 'heed';
import { describe, expect, test } from 'vitest';
import { tinyModel } from './tiny.js';

const heed = await load();
describe("pipeline keeps transformers.js's conventions", () => {
  test('feature extraction', async () => {
    const extract = await pipeline('feature-extraction', tinyModel());
    using model = await heed.fromPretrained(tinyModel());
    const out = await extract(['the fox', 'a'], { pooling: 'mean', normalize: true });
    expect(out).toMatchObject({ type: 'float32', dims: [2, 24], size: 48 });
    expect(out.data).toEqual((await model.embed(['the fox', 'a'], { pooling: 'mean', normalize: true })).data);
    expect((out.tolist() as number[][])[1]).toHaveLength(24);
    const rows = out.tolist() as number[][];
    expect(out[1]!.tolist()).toEqual(rows[1]);
    expect(out[2]).toBeUndefined();
    expect([...out].map((row) => (row as typeof out).tolist())).toEqual(rows);
    expect([...out[0]!]).toEqual(rows[0]);
    expect(out[0]![3]!.item()).toBe(rows[0]![3]);
    const part = out.slice(null, [1, -20]);
    expect([part.dims, part.tolist()]).toEqual([[2, 3], rows.map((row) => row.slice(1, 4))]);
    expect(out.slice(-1, [22, null]).tolist()).toEqual(rows[1]!.slice(22));
    expect(() => out.slice(2)).toThrow('slice[0]: expected null, an index or [start, end] within 2 entries, got 2');
    expect(() => out.slice(0, 0, 0)).toThrow('slice: expected at most 2 slices, one per axis, got 3');
    expect(() => out.item()).toThrow('item: expected a tensor with one value, got 48');
    const bytes = await extract(['the fox', 'a'], { pooling: 'mean', quantize: true, precision: 'ubinary' });
    expect(bytes).toMatchObject({ type: 'uint8', dims: [2, 3] });
    expect(bytes.data).toEqual((await model.embed(['the fox', 'a'], { pooling: 'mean', output: 'binary' })).data);
    const signed = await extract(['the fox', 'a'], { pooling: 'mean', quantize: true });
    expect(signed.data).toEqual(Int8Array.from(bytes.data, (byte) => byte - 128));
    expect((await extract('the fox', { quantize: true })).dims).toEqual([1, 4, 3]);
    await expect(extract('a', { quantize: true, precision: 'int8' as 'binary' })).rejects.toThrow("'ubinary'");
    expect((await extract('the fox')).dims).toEqual([1, 4, 24]);
    await expect(extract('a', { pooling: 'sum' as 'mean' })).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
    await extract.dispose();
    await expect(extract('a')).rejects.toMatchObject({ code: 'DISPOSED' });
  });

  test('classification', async () => {
    using model = await pipeline('text-classification', tinyModel());
    expect(await model('the fox')).toEqual([{ label: expect.any(String), score: expect.any(Number) }]);
    expect(await model(['a', 'x'])).toHaveLength(2);
    const [best] = await model('the fox');
    const [first] = await model(['a', 'x'], { top_k: null });
    expect([best!.score, first![0]!.score]).toEqual([expect.any(Number), expect.any(Number)]); // these types compile
    await expect(model('the fox', { topK: 2 } as object)).rejects.toThrow(
      "text-classification: expected 'top_k' (all: top_k), got the unknown option 'topK'",
    );
    expect(await model('the fox', { top_k: null })).toHaveLength(3);
    expect(await model(['a'], { top_k: 2 })).toEqual([[expect.anything(), expect.anything()]]);
  });

  test('tokens, masks and questions', async () => {
    using tag = await pipeline('token-classification', tinyModel());
    expect(((await tag('the fox')) as { entity: string }[])[0]).toHaveProperty('entity');
    expect(((await tag('the fox', { aggregation_strategy: 'simple' })) as object[])[0]).toHaveProperty('entity_group');
    using fill = await pipeline('fill-mask', tinyModel());
    const masks = await fill<string, MaskFilling[][]>('[MASK] the [MASK]', { top_k: 3 });
    expect(masks.map((list) => list.map(Object.keys))).toEqual(
      Array(2).fill(Array(3).fill(['score', 'token', 'token_str', 'sequence'])),
    );
    expect((await fill('the [MASK]'))[0]).toMatchObject({
      token_str: expect.any(String),
      sequence: expect.any(String),
    });
    using ask = await pipeline('question-answering', tinyModel());
    const one = await ask('the', 'a fox');
    expect(one).toMatchObject({ answer: expect.any(String), score: expect.any(Number) });
    const both = await ask(['the', 'a'], 'a fox');
    expect(both).toEqual([one, await ask('a', 'a fox')]);
    expect(await ask(['the', 'a'], ['a fox', 'a fox'], { top_k: 2 })).toEqual([
      await ask('the', 'a fox', { top_k: 2 }),
      await ask('a', 'a fox', { top_k: 2 }),
    ]);
    await expect(ask(['the', 'a'], ['a fox'])).rejects.toThrow(
      'context: expected one context, or 2, one per question, got 1',
    );
  });

  test('progress', async () => {
    const seen: string[] = [];
    const totals: number[] = [];
    const files = new Set<string>();
    using _ = await pipeline('feature-extraction', tinyModel(), {
      progress_callback: (progress) => {
        seen.push(progress.status);
        if (progress.status === 'progress_total') {
          totals.push(progress.loaded);
          const sum = Object.values(progress.files).reduce((bytes, { loaded }) => bytes + loaded, 0);
          expect(sum).toBe(progress.loaded);
          expect(progress.progress).toBeCloseTo((100 * progress.loaded) / progress.total, 6);
        } else if (progress.status === 'done') files.add(progress.file);
      },
    });
    expect(totals).toEqual([...totals].sort((a, b) => a - b));
    expect([...files]).toEqual(expect.arrayContaining(['config.json', 'tokenizer.json', 'model.safetensors']));
    expect(seen[0]).toBe('initiate');
    expect(seen[1]).toBe('download');
    expect(seen.at(-1)).toBe('ready');
    expect(seen.filter((s) => s === 'initiate').length).toBe(seen.filter((s) => s === 'done').length);
  });

  test('what it does not do', async () => {
    await expect(pipeline('feature_extraction' as 'feature-extraction')).rejects.toThrow(/'feature-extraction'/);
    await expect(pipeline('feature-extraction', tinyModel(), { device: 'npu' as 'wasm' })).rejects.toMatchObject({
      code: 'UNSUPPORTED',
    });
  });

  test.each(['wasm', 'cpu', 'auto', 'webgpu'] as const)('device %s where there is no GPU', async (device) => {
    const gpu = { requestAdapter: async () => null };
    const made = pipeline('feature-extraction', tinyModel(), { device, gpu });
    if (device === 'webgpu') await expect(made).rejects.toMatchObject({ code: 'GPU_FAILED' });
    else {
      const extract = await made;
      expect(extract.model.device.type).toBe('wasm');
      expect(extract.model.device.reason).toMatch(device === 'auto' ? /got no adapter/ : /^the default$/);
      await extract.dispose();
    }
  });
});
