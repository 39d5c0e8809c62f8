/** The page “Your model” searches pictures with a model that embeds images. */
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { load, semanticSearch } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bytesOf, fixture } from '../web/models/fixtures';
import { tinyClip } from '../web/models/tiny';
import { openSite, type Site, visit } from './site';

let site: Site;
let clip: string;
let dino: string;
let folder: string;

/** A folder with these files. */
async function written(name: string, files: Record<string, Uint8Array | string>): Promise<string> {
  const path = join(folder, name);
  for (const [file, bytes] of Object.entries(files)) {
    await mkdir(dirname(join(path, file)), { recursive: true });
    await writeFile(join(path, file), bytes);
  }
  return path;
}

const [width, height] = [40, 30];
const pixelsOf = (n: number) =>
  Uint8ClampedArray.from(
    { length: 3 * width * height },
    (_, i) => 128 + 120 * Math.sin(i * (n + 1) * 0.017 + (i % 3) * n),
  );

/** An uncompressed picture, bottom row first, blue first. */
function bitmap(rgb: Uint8ClampedArray): Buffer {
  const header = Buffer.alloc(54);
  header.write('BM');
  header.writeUInt32LE(54 + rgb.length, 2);
  header.writeUInt32LE(54, 10);
  header.writeUInt32LE(40, 14);
  header.writeInt32LE(width, 18);
  header.writeInt32LE(height, 22);
  header.writeUInt16LE(1, 26);
  header.writeUInt16LE(24, 28);
  const body = Buffer.alloc(rgb.length); // rows of 120 bytes need no padding
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let c = 0; c < 3; c++) body[3 * (y * width + x) + 2 - c] = rgb[3 * ((height - 1 - y) * width + x) + c]!;
  return Buffer.concat([header, body]);
}

const names = Array.from({ length: 6 }, (_, n) => `picture-${n}.bmp`);
const files = names.map((name, n) => ({ name, mimeType: 'image/bmp', buffer: bitmap(pixelsOf(n)) }));
const images = names.map((_, n) => ({ data: pixelsOf(n), width, height }));

beforeAll(async () => {
  site = await openSite();
  folder = await mkdtemp(join(tmpdir(), 'heed-'));
  clip = await written('clip', tinyClip());
  const { 'expected.safetensors': _, ...others } = bytesOf(fixture('dinov2').folder);
  dino = await written('dinov2', others);
});
afterAll(() => site?.close());

describe('pictures', () => {
  it('are found by a text, and by one of them', async () => {
    const heed = await load();
    using model = await heed.fromPretrained(clip);
    const vectors = await model.embedImages(images, { normalize: true });
    const orderFor = async (text: string) =>
      semanticSearch(await model.embed(text, { normalize: true }), vectors)[0]!.map(({ index }) => names[index]);

    const { page, complaints } = await site.open('#meaning?model=own&picture=w5%20w6');
    await page.waitForSelector('.drop');
    await page.locator('.drop input[type=file]').setInputFiles(clip);
    await page
      .getByLabel('Choose pictures')
      .setInputFiles([...files, { name: 'broken.png', mimeType: 'image/png', buffer: Buffer.from('no picture') }]);
    await page.getByText('6 pictures can be searched.').waitFor();
    await page.getByText('This browser cannot show broken.png').waitFor();
    const shown = () =>
      page.locator('.pictures img').evaluateAll((all) => all.map((img) => (img as HTMLImageElement).alt));
    await expect.poll(shown).toEqual(await orderFor('w5 w6'));
    await page.getByLabel('What is in the picture').fill('w9 w40 w3 w77');
    await expect.poll(shown).toEqual(await orderFor('w9 w40 w3 w77'));
    const nearest = semanticSearch(vectors.slice(2, 3), vectors)[0]!.map(({ index }) => names[index]);
    await page.getByRole('button', { name: 'picture-2.bmp' }).click();
    await expect.poll(shown).toEqual(nearest);
    expect(nearest[0]).toBe('picture-2.bmp');
    // The pictures themselves, which the page's policy has to allow.
    expect(
      await page
        .locator('.pictures img')
        .evaluateAll((all) => all.map((img) => (img as HTMLImageElement).naturalWidth)),
    ).toEqual(new Array(6).fill(width));

    expect(complaints).toEqual([]);
  });

  it('are found by pictures only if the model has no encoder of texts', async () => {
    // The page's policy would also forbid axe.
    const { page, context, complaints } = await visit(site, '#meaning?model=own', { bypassCSP: true });
    await page.waitForSelector('.drop');
    await page.locator('.drop input[type=file]').setInputFiles(dino);
    await page.getByLabel('Choose pictures').setInputFiles(files);
    await page.getByText('6 pictures can be searched.').waitFor();
    expect(await page.getByLabel('What is in the picture').count()).toBe(0);
    expect(await page.getByRole('alert').count()).toBe(0);
    await page.getByRole('button', { name: 'picture-4.bmp' }).click();
    await expect.poll(() => page.locator('.pictures img').first().getAttribute('alt')).toBe('picture-4.bmp');
    const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
    await page.evaluate(axe);
    const violations = await page.evaluate(async () => {
      const { axe } = globalThis as unknown as { axe: typeof import('axe-core') };
      return (await axe.run('.pictures')).violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html}`);
    });
    expect(violations).toEqual([]);
    await page.setViewportSize({ width: 360, height: 740 });
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(360);
    expect(complaints).toEqual([]);
    await context.close();
  });
});
