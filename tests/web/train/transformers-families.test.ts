/** Gradients and int8 of checkpoints that transformers made and ran (tests/fixtures/families/gradients.py). */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { load as loadInference, similarity } from 'heed';
import { load } from 'heed/train';
import { describe, expect, test } from 'vitest';
import type { TokenIds } from '../../../web/src/models/input.js';
import { expectClose, readSafetensors } from '../models/fixtures.js';

const root = fileURLToPath(new URL('../../fixtures/families/', import.meta.url));
const names = readdirSync(root).filter((name) => existsSync(`${root}${name}/gradients.safetensors`));

describe.each(names)('%s', (name) => {
  const folder = root + name;
  const input = JSON.parse(readFileSync(`${folder}/input.json`, 'utf8')) as TokenIds;

  test("has PyTorch's gradients", async () => {
    const heed = await load();
    const expected = readSafetensors(`${folder}/gradients.safetensors`);
    for (const recompute of [false, true]) {
      const model = await heed.fromPretrained(folder, { trainable: true, dropout: 0, recompute });
      const vectors = model.train().sentenceVectors(input, { pooling: 'mean', normalize: false });
      const zeros = { data: new Float32Array(vectors.data.length), shape: vectors.shape };
      heed.losses.mse(vectors, zeros).backward();
      for (const { name: parameter, grad } of model.parameters()) {
        const own = expected.get(parameter);
        if (own) expectClose(grad!, own, parameter);
        else expect(grad?.data.some((value) => value !== 0) ?? false, parameter).toBe(false);
      }
      model.dispose();
    }
  });

  test('stays close in int8', async () => {
    const heed = await loadInference();
    using exact = await heed.fromPretrained(folder);
    using int8 = await heed.fromPretrained(folder, { dtype: 'q8' });
    const [a, b] = [await exact.embed(input), await int8.embed(input)];
    const cosines = similarity(a, b);
    const count = a.shape[0]!;
    for (let n = 0; n < count; n++) expect(cosines.data[n * count + n]).toBeGreaterThan(0.99);
  });
});
