/** Optional files of DINOv3's folders, and invalid folders. Their vectors are tested in images.test.ts. */
import { load } from 'heed';
import { load as loadTraining } from 'heed/train';
import { expect, test } from 'vitest';
import { bytesOf, fixture } from './fixtures.js';

test("DINOv3's biases are optional only as config.json says", async () => {
  const heed = await load();
  const files = bytesOf(fixture('dinov3').folder);
  const config = JSON.parse(new TextDecoder().decode(files['config.json']));
  const withConfig = (change: object) => ({ ...files, 'config.json': JSON.stringify({ ...config, ...change }) });
  for (const [change, message] of [
    [{ key_bias: true }, "'layer.0.attention.k_proj.bias'"],
    [{ num_attention_heads: 12 }, 'heads whose width is a multiple of 4, got 12'],
    [{ num_register_tokens: 5 }, "tensor 'embeddings.register_tokens'"],
    [{ use_gated_mlp: true }, "'layer.0.mlp.gate_proj.weight'"],
  ] as const)
    await expect(heed.fromPretrained(withConfig(change))).rejects.toMatchObject({
      code: 'INVALID_FILE',
      message: expect.stringContaining(message),
    });
});

test('cannot be trained', async () => {
  const heed = await loadTraining();
  await expect(heed.fromPretrained(fixture('dinov3').folder, { trainable: true })).rejects.toMatchObject({
    code: 'UNSUPPORTED',
  });
});
