/** WebGPU in Node, through the package webgpu, with Chromium's software adapter. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { expectClose, fixture, fixtures } from '../web/models/fixtures.js';

const swiftshader = '/usr/lib/chromium/vk_swiftshader_icd.json';
const script = fileURLToPath(new URL('webgpu-in-node.mjs', import.meta.url));

test.skipIf(!existsSync(swiftshader))("encode on a GPU gives PyTorch's hidden states", () => {
  const { expected, input } = fixture('bert');
  const env = { ...process.env, VK_ICD_FILENAMES: swiftshader, LD_LIBRARY_PATH: '/usr/lib/chromium' };
  const run = () =>
    spawnSync(process.execPath, [script, `${fixtures}/bert`, JSON.stringify(input)], { env, encoding: 'utf8' });
  let child = run();
  // The package aborts now and then with this adapter. Exceptions and other values are not tried again.
  for (let i = 0; i < 5 && child.signal; i++) child = run();
  expect(child, child.stderr).toMatchObject({ signal: null, status: 0 });
  const { device, data, shape, auto } = JSON.parse(child.stdout);
  expect(device).toMatchObject({ type: 'webgpu', adapter: expect.stringMatching(/swiftshader/i) });
  expectClose({ data: Float32Array.from(data), shape }, expected.get('hidden_states.3'), 'last hidden state');
  // Software is not chosen, if the package says that it is; else it is by what was measured.
  expect(auto.reason).toMatch(/fallback adapter|rows take/);
});
