/** Checkpoints that transformers made and ran (tests/fixtures/families/generate.py), on a GPU. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import type { TokenIds } from '../../../web/src/models/input.js';
import { expectClose, readSafetensors } from '../models/fixtures.js';
import { useGpuSite } from './site.js';

const site = useGpuSite();

declare const heed: typeof import('heed');

const root = fileURLToPath(new URL('../../fixtures/families/', import.meta.url));

/** Encodes a checkpoint's input on the GPU: the last hidden state, or the message of the error. */
function encoded(name: string) {
  const folder = root + name;
  const input = JSON.parse(readFileSync(`${folder}/input.json`, 'utf8')) as TokenIds;
  const config = readFileSync(`${folder}/config.json`, 'utf8');
  const weights = [...readFileSync(`${folder}/model.safetensors`)];
  return site.page.evaluate(
    async ([config, weights, input]) => {
      const runtime = await heed.load();
      const files = { 'config.json': config, 'model.safetensors': Uint8Array.from(weights) };
      try {
        const model = await runtime.fromPretrained(files, { device: 'webgpu' });
        const { data, shape } = (await model.encode(input)).lastHiddenState;
        const result = { device: model.device.type, data: [...data], shape: [...shape] };
        model.dispose();
        return result;
      } catch (error) {
        return (error as Error).message;
      }
    },
    [config, weights, input] as const,
  );
}

test.each([
  'bert-decoder',
  'ernie-task',
  'xlm-roberta-xl',
  'ultrabert',
  'deberta-c2p-convolution',
  'deberta-c2p-shared',
  'deberta-p2c',
  'deberta-no-terms',
  'deberta-absolute',
])("%s gives transformers' hidden states", async (name) => {
  const expected = readSafetensors(`${root}${name}/expected.safetensors`);
  const got = await encoded(name);
  if (typeof got === 'string') expect.fail(got);
  expect(got.device).toBe('webgpu');
  const last = [...expected.keys()].filter((key) => key.startsWith('hidden_states')).length - 1;
  expectClose({ ...got, data: Float32Array.from(got.data) }, expected.get(`hidden_states.${last}`), name);
});

test('RoFormer is refused by name', async () => {
  expect(await encoded('roformer')).toMatch(/device: expected 'wasm' for RoFormer's rotation/);
});
