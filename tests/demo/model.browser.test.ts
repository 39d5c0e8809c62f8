/** The page “Your model” opens a model from a folder or a URL, shows the library's numbers, and explains what it cannot open. */
import { copyFile, mkdir, mkdtemp, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { load, type PretrainedModel } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { largestDifference, openSite, type Site, shownMatrix, shownWithin } from './site';

const shipped = fileURLToPath(new URL('../../web/model', import.meta.url));
const sentences = ['A red fox.', 'The fox is red.', 'Rates rose.'];
const written = `text=${encodeURIComponent(sentences.join('\n'))}`;

let site: Site;
let folder: string;
let models: Record<'fp32' | 'q8', PretrainedModel>;
beforeAll(async () => {
  site = await openSite();
  folder = await mkdtemp(join(tmpdir(), 'heed-'));
  const heed = await load();
  models = { fp32: await heed.fromPretrained(shipped), q8: await heed.fromPretrained(shipped, { dtype: 'q8' }) };
});
afterAll(async () => {
  for (const model of Object.values(models ?? {})) model.dispose();
  await site?.close();
});

const choose = (page: Page, path: string) => page.locator('input[type=file]').setInputFiles(path);
const alert = (page: Page) => page.getByRole('alert').innerText();

async function cosines(dtype: 'fp32' | 'q8'): Promise<number[][]> {
  const { data, shape } = await models[dtype].embed(sentences, { normalize: true });
  const rows = sentences.map((_, i) => data.subarray(i * shape[1]!, (i + 1) * shape[1]!));
  return rows.map((a) => rows.map((b) => a.reduce((sum, entry, j) => sum + entry * b[j]!, 0)));
}

describe('the page “Your model”', () => {
  it.each(['fp32', 'q8'] as const)('opens a folder in %s', async (dtype) => {
    const { page, complaints } = await site.open(`#meaning?model=own&${written}&dtype=${dtype}`);
    await page.waitForSelector('.drop');
    await choose(page, shipped);
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    const facts = await page.locator('.facts-table').first().innerText();
    const { numLayers, embedDim, parameterCount } = models[dtype].config;
    for (const fact of [`${numLayers} layers`, `width ${embedDim}`, parameterCount.toLocaleString('en')])
      expect(facts).toContain(fact);
    expect(await page.locator('.facts-table').nth(1).innerText()).toContain('model.safetensors');
    const expected = await cosines(dtype);
    await expect
      .poll(async () => largestDifference(await shownMatrix(page, 'cosines'), expected))
      .toBeLessThan(shownWithin);
    expect(complaints).toEqual([]);
  });

  it('opens dropped files', async () => {
    const { page } = await site.open(`#meaning?model=own&${written}`);
    await page.waitForSelector('.drop');
    await page.evaluate(
      async (urls) => {
        const transfer = new DataTransfer();
        for (const url of urls) {
          const body = await (await fetch(url)).arrayBuffer();
          transfer.items.add(new File([body], url.split('/').at(-1)!));
        }
        document
          .querySelector('.drop')!
          .dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true }));
      },
      ['config.json', 'tokenizer.json', 'model.safetensors'].map((name) => `/model/${name}`),
    );
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(await shownMatrix(page, 'cosines')).toHaveLength(sentences.length);
  });

  it('opens a folder dropped from the desktop, and reads it again as int8', async () => {
    const { page, context, complaints } = await site.open(`#meaning?model=own&${written}`);
    const { x, y } = (await page.locator('.drop').boundingBox())!;
    const devtools = await context.newCDPSession(page);
    const data = { items: [], files: [shipped], dragOperationsMask: 1 };
    for (const type of ['dragEnter', 'dragOver', 'drop'] as const)
      await devtools.send('Input.dispatchDragEvent', { type, x: x + 40, y: y + 40, data });
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    const files = await page.locator('.facts-table').nth(1).innerText();
    for (const name of ['config.json', '1_Pooling/config.json', 'model.safetensors']) expect(files).toContain(name);
    const shows = async (dtype: 'fp32' | 'q8') => {
      const expected = await cosines(dtype);
      await expect
        .poll(async () => largestDifference(await shownMatrix(page, 'cosines'), expected))
        .toBeLessThan(shownWithin);
    };
    await shows('fp32');
    await page.getByText('int8: smaller, faster').click();
    await expect.poll(() => page.locator('.facts-table').first().innerText()).toMatch(/Precision\s+int8/);
    await shows('q8');
    await expect.poll(() => page.url()).toContain('dtype=q8'); // after a delay
    expect(complaints).toEqual([]);
  });

  it('explains that the browser did not provide the files of a dropped folder', async () => {
    const { page } = await site.open('#meaning?model=own');
    await page.waitForSelector('.drop');
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.setData('text/uri-list', 'file:///home/reader/model'); // all that WebKitGTK provides
      document.querySelector('.drop')!.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true }));
    });
    await expect.poll(() => alert(page)).toMatch(/did not provide the files.*“Choose a folder”/s);
  });

  it('offers links to the files of a host that it cannot read from', async () => {
    const elsewhere = new URL('/model/', site.url.replace('localhost', '127.0.0.1')).href;
    const { page } = await site.open(`#meaning?model=own&url=${encodeURIComponent(elsewhere)}`);
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await expect.poll(() => alert(page)).toMatch(/cannot be fetched.*save the files/s);
    const links = await page
      .getByRole('alert')
      .getByRole('link')
      .evaluateAll((found) => found.map((link) => (link as HTMLAnchorElement).href));
    expect(links).toEqual(['config.json', 'tokenizer.json', 'model.safetensors'].map((name) => elsewhere + name));
  });

  it('opens a folder by its URL', async () => {
    const url = new URL('/model/', site.url).href;
    const { page } = await site.open(`#meaning?model=own&${written}&url=${encodeURIComponent(url)}`);
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(largestDifference(await shownMatrix(page, 'cosines'), await cosines('fp32'))).toBeLessThan(shownWithin);
  });

  it('explains why a folder is not a model, and still opens the next one', async () => {
    const { page } = await site.open(`#meaning?model=own&${written}`);
    await page.waitForSelector('.drop');

    await mkdir(join(folder, 'holiday'));
    await writeFile(join(folder, 'holiday/beach.jpg'), 'jpeg');
    await choose(page, join(folder, 'holiday'));
    await expect
      .poll(() => alert(page))
      .toMatch(/not a model folder: it contains holiday\/beach\.jpg, but no config\.json/);

    await mkdir(join(folder, 'onnx'));
    await writeFile(join(folder, 'onnx/config.json'), '{}');
    await writeFile(join(folder, 'onnx/model.onnx'), 'onnx');
    await choose(page, join(folder, 'onnx'));
    await expect.poll(() => alert(page)).toMatch(/no \.safetensors file, only model\.onnx/);

    await mkdir(join(folder, 'huge'));
    await writeFile(join(folder, 'huge/config.json'), '{}');
    await writeFile(join(folder, 'huge/model.safetensors'), '');
    await truncate(join(folder, 'huge/model.safetensors'), 5e9);
    await choose(page, join(folder, 'huge'));
    await expect.poll(() => alert(page)).toMatch(/5\.0 GB\. A tab can hold about 3 GB/);

    await mkdir(join(folder, 'sparse'));
    for (const name of ['config.json', 'tokenizer.json'])
      await copyFile(join(shipped, name), join(folder, 'sparse', name));
    await writeFile(join(folder, 'sparse/model.safetensors'), '');
    await truncate(join(folder, 'sparse/model.safetensors'), 2e9);
    await choose(page, join(folder, 'sparse'));
    await expect.poll(() => alert(page)).toMatch(/could not be opened.*model\.safetensors/s);

    for (const [url, says] of [
      ['not a url at all:::', /not a URL|status 404|config\.json/],
      [new URL('/nowhere/', site.url).href, /config\.json|404/],
    ] as const) {
      await page.getByLabel('Or enter the address').fill(url);
      await page.getByRole('button', { name: 'Open', exact: true }).click();
      await expect.poll(() => alert(page)).toMatch(says);
    }

    // And then a model.
    await choose(page, shipped);
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    expect(await page.getByRole('alert').count()).toBe(0);
  });
});
