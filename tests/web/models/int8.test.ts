/** int8 products have the same bits in both builds, with any instructions, because their sums are integers. */
import { load } from 'heed';
import { expect, it } from 'vitest';
import { relaxedSimd } from 'wasm-feature-detect';
import { bertFiles, idsOf } from './bert-files.js';

type Values = (row: number, column: number, value: number) => number;

/** Replaces the values of some tensors in a safetensors file. */
function withValues(file: Uint8Array, changes: Record<string, Values>): Uint8Array {
  const changed = file.slice();
  const view = new DataView(changed.buffer);
  const length = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(changed.subarray(8, 8 + length)));
  for (const [name, values] of Object.entries(changes)) {
    const { shape, data_offsets: offsets } = header[name];
    for (let at = offsets[0], i = 0; at < offsets[1]; at += 4, i++) {
      const from = 8 + length + at;
      const value = values(Math.floor(i / shape.at(-1)), i % shape.at(-1), view.getFloat32(from, true));
      view.setFloat32(from, value, true);
    }
  }
  return changed;
}

// Rows with equal numbers of 127 and -127: they are exact in int8, their mean is 0 and their variance 127^2, so that
// the norm gives the same bits with fused
// multiply-add and without. Its output is plus or minus its weight.
const exactEmbeddings = (width: number): Record<string, Values> => ({
  'embeddings.word_embeddings.weight': (row, column) => ((column + 5 * row) % width < width / 2 ? 127 : -127),
  'embeddings.position_embeddings.weight': () => 0,
  'embeddings.token_type_embeddings.weight': () => 0,
  'embeddings.LayerNorm.bias': () => 0,
});

// Enough rows for several row blocks of each height. 36 columns are neither a multiple of a column panel nor of a group
// of quantized values.
it.skipIf(!(await relaxedSimd())).each([36, 384])(
  'int8 products are the same in both builds (width %i)',
  async (width) => {
    const { 'config.json': config, 'model.safetensors': weights } = bertFiles({
      ...{ width, inner: 64, heads: 2, layers: 1, vocab: 50, positions: 64 },
    });
    const attention = 'encoder.layer.0.attention.self';
    const files = {
      'config.json': config!,
      'model.safetensors': withValues(weights!, {
        ...exactEmbeddings(width),
        // Integers of maximum magnitude: four of their products do not fit into 16 bits.
        [`${attention}.key.weight`]: (_, __, value) => Math.sign(value),
      }),
    };
    const inputIds = idsOf([1, 2, 3, 4, 5, 6, 7, 13, 31], 50);
    const project = async (build: 'simd128' | 'relaxed-simd', dtype: 'fp32' | 'q8') => {
      const heed = await load({ build });
      using model = await heed.fromPretrained(files, { dtype });
      const { projections } = await model.encode({ inputIds }, { outputProjections: true });
      return [projections.queries[0]!, projections.keys[0]!].map(({ data }) => [...data]);
    };
    const [simd128, relaxed] = [await project('simd128', 'q8'), await project('relaxed-simd', 'q8')];
    expect(relaxed).toEqual(simd128);
    // They approximate the fp32 products, but differ from them.
    const exact = await project('simd128', 'fp32');
    for (const [i, projected] of simd128.entries()) {
      const scale = Math.max(...exact[i]!.map(Math.abs));
      const errors = projected.map((x, k) => Math.abs(x - exact[i]![k]!));
      expect(Math.max(...errors)).toBeLessThan(0.03 * scale);
      expect(Math.max(...errors)).toBeGreaterThan(0);
    }
  },
);
