/** The page that times heed on a GPU (bench/gpu.html), as a static folder, with a small encoder on a software adapter. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { makeGpuPage } from '../../../tools/bench-gpu.mjs';
import { chromiumArguments, launchChromium } from '../../../tools/chromium.mjs';
import { type Served, serve } from '../../package/serve.js';
import { everything, gpuArguments } from './site.js';

let folder: string;
let served: Served;
let browser: Browser;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'heed-gpu-page-'));
  await makeGpuPage(folder, { onnxruntime: everything });
  served = await serve(folder, { base: '/some/path/' });
});
afterAll(async () => {
  await browser?.close();
  await served?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

const small = 'layers=1&width=48&seconds=0&shapes=1x5';
const cellsOf = (row: string) => row.split('|').map((cell) => cell.trim());

test('prints a row for bench/GPU.md, which says that the adapter is software', async (context) => {
  browser = await launchChromium({ args: gpuArguments });
  const page = await browser.newPage();
  const rows: string[] = [];
  // First only compared, the default for software adapters, then also timed, as on GPUs.
  for (const query of [`${small},2x9`, `${small}&timed`]) {
    await page.goto(`${served.url}?${query}`);
    await page.waitForSelector('#adapter dd');
    const hasAdapter = await page.locator('#start').isEnabled();
    context.skip(!hasAdapter, 'Chromium offers no WebGPU adapter');
    await page.click('#start');
    await page.waitForFunction(() => /^(done|failed)/.test(document.getElementById('status')!.textContent!), null, {
      timeout: 0,
    });
    expect(await page.textContent('#status')).toBe('done');
    rows.push((await page.textContent('#row'))!);
  }
  expect(await page.textContent('#warnings')).toMatch(everything ? /^$/ : /^without onnxruntime-web/);
  const [compared, timed] = rows.map(cellsOf);
  expect(compared).toHaveLength(10); // including the empty cells before and after the row
  expect(compared![1]).toMatch(/swiftshader .*\(software: correctness only\)$/i);
  expect(compared![2]).toMatch(/^Chrome \d+, Linux$/);
  expect(compared!.slice(3, 5)).toEqual(['compared', 'compared']);
  const ratio = String.raw`\d+\.\d\d \(\d+\.\d\d–\d+\.\d\d\)`;
  expect(timed![3]).toMatch(new RegExp(`^[\\d.]+ ms \\([\\d.]+ in fp16\\), ${ratio}, ${everything ? ratio : '–'}$`));
  for (const cells of [compared!, timed!]) {
    const [ours, half, peer, date] = cells.slice(-5, -1);
    for (const cosine of [ours, half]) expect(Number(cosine)).toBeGreaterThan(0.99999);
    if (everything) expect(Number(peer)).toBeGreaterThan(0.99999);
    expect(date).toMatch(/^\d{4}-\d\d-\d\d$/);
  }
});

test('has as many columns as the table, whose rows it adds to', () => {
  const table = readFileSync(new URL('../../../bench/GPU.md', import.meta.url), 'utf8').match(/^\|.*\|$/gm)!;
  const columns = new Set(table.map((row) => cellsOf(row).length));
  expect([...columns]).toEqual([10 + 2]); // four shapes instead of two
});

test('says that a browser has no WebGPU', async () => {
  const plain = await launchChromium({ args: [...chromiumArguments, '--disable-features=WebGPU'] });
  const page = await plain.newPage();
  await page.goto(`${served.url}?start`);
  await page.waitForSelector('#adapter dd');
  expect(await page.textContent('#adapter')).toContain('offers no WebGPU adapter');
  expect(await page.locator('#start').isDisabled()).toBe(true);
  await plain.close();
});
