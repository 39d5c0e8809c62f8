/** The maps on “Meaning”: the words and scores are the dictionary's, regions are named by the words around them, and sentences are the document's. */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Heed, load, type PretrainedModel, type TextIndex } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { nearestWords, offered } from '../../examples/support/answers.mjs';
import { newVisit, openSite, type Site, visit } from './site';

let site: Site;
let heed: Heed;
let model: PretrainedModel;
let index: TextIndex;
let vectors: Float32Array;
/** The words on the map, and two hexadecimal digits for each coordinate of each. */
let words: string[];
let places: [x: number, y: number][];
let regions: [name: string, x: number, y: number][];
const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

beforeAll(async () => {
  [site, heed] = await Promise.all([openSite(), load()]);
  model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
  index = await heed.TextIndex.load(here('../../web/model/dictionary'), { embedder: model });
  vectors = index.toTensor().data;
  words = index.texts.filter(offered);
  const file = JSON.parse(await readFile(here('../../demo/src/pages/meaning/words-map.json'), 'utf8'));
  regions = file.regions;
  places = words.map((_, i) => {
    const at = (from: number) => Number.parseInt(file.places.slice(4 * i + from, 4 * i + from + 2), 16);
    return [at(0), at(2)];
  });
  expect(file.places).toHaveLength(4 * words.length);
});
afterAll(async () => {
  heed?.dispose();
  await site?.close();
});

const gapOf = (a: readonly number[], b: readonly number[]) => Math.hypot(a[0]! - b[0]!, a[1]! - b[1]!);
const medianOf = (values: number[]) => values.sort((a, b) => a - b)[values.length >> 1]!;

/** The nearest words of a word, by the dictionary's vectors. */
function nearestOf(word: string, count: number): string[] {
  const at = index.texts.indexOf(word) * index.dimensions;
  const hits = index.search(vectors.slice(at, at + index.dimensions), { topK: 2 * count });
  return hits
    .map(({ text }) => text)
    .filter(offered)
    .slice(0, count);
}

describe('the layout of the words', () => {
  it('puts the name of a region among the words nearest to it, half of them nearby', () => {
    const at = new Map(words.map((word, i) => [word, places[i]!]));
    expect(regions.length).toBeGreaterThan(30);
    for (const [name, ...place] of regions) {
      const around = nearestOf(name, 60).map((word) => at.get(word)!);
      expect([0, 1].map((axis) => medianOf(around.map((one) => one[axis]!)))).toEqual(place);
      expect(medianOf(around.map((one) => gapOf(one, place)))).toBeLessThanOrEqual(12);
    }
  });

  it('keeps similar words together', () => {
    const at = new Map(words.map((word, i) => [word, places[i]!]));
    const some = words.filter((_, i) => i % 100 === 0);
    const gaps = some.map((word) => medianOf(nearestOf(word, 11).map((other) => gapOf(at.get(other)!, at.get(word)!))));
    const others = some.map((word, i) => gapOf(at.get(word)!, at.get(some[(i + 70) % some.length]!)!));
    expect(medianOf(gaps)).toBeLessThan(0.2 * medianOf(others));
  });
});

describe('the map', () => {
  it('appears without the model', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.route(/\.safetensors/, () => {}); // never answered
    await page.goto(`${site.url}#meaning`);
    await page.locator('#map-note').getByText('19,959 words of the dictionary').waitFor();
    const inked = () =>
      page.locator('.map canvas').evaluate((canvas: HTMLCanvasElement) => {
        const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
        return data.filter((entry, i) => i % 4 === 3 && entry > 0).length;
      });
    await expect.poll(inked).toBeGreaterThan(10_000);
    await context.close();
  });

  it('names the words beside the one that is pointed at', async () => {
    const { page, complaints } = await site.open('#meaning');
    const said = page.locator('#map-said');
    await said.getByText('Nearest to “').waitFor();
    const box = (await page.locator('.map canvas').boundingBox())!;
    // Some word is near one of these places.
    for (let i = 0; i < 200 && !(await said.innerText()).includes('beside it are'); i++)
      await page.mouse.move(box.x + 40 + ((37 * i) % (box.width - 80)), box.y + 40 + ((53 * i) % (box.height - 80)));
    const [first, ...others] = [...(await said.innerText()).matchAll(/“(.+?)”/g)].map(([, word]) => word!);
    expect(others).toHaveLength(6);
    const at = (word: string) => places[words.indexOf(word)]!;
    const scaled = ([x, y]: readonly number[]) => [x! * (box.width - 48), y! * (box.height - 48)];
    const gaps = words.map((word) => gapOf(scaled(at(word)), scaled(at(first!))) / 255).sort((a, b) => a - b);
    // Places are rounded, and drawn with a shift of at most half a step.
    for (const word of others) expect(gapOf(scaled(at(word)), scaled(at(first!))) / 255).toBeLessThan(gaps[7]! + 6);
    expect(complaints).toEqual([]);
  });

  it('shows what the dictionary finds, with its scores, on each keystroke, and the ring moves there', async () => {
    const { page, context } = await visit(site, '#meaning', {
      serviceWorkers: 'block',
      reducedMotion: 'no-preference',
    });
    const said = page.locator('#map-said');
    await said.getByText('Nearest to “').waitFor();
    const description = 'a place where ships are loaded';
    await page.evaluate(() => {
      const seen = new Set<string>();
      const look = () => {
        seen.add(document.querySelector<HTMLCanvasElement>('.map canvas')!.toDataURL());
        requestAnimationFrame(look);
      };
      look();
      Object.assign(globalThis, { seen });
    });
    await page.getByLabel('Describe something').fill(description);
    await said.getByText(`Nearest to “${description}”`).waitFor();
    // More pictures than the first and the last.
    const frames = () => page.evaluate(() => (globalThis as unknown as { seen: Set<string> }).seen.size);
    await expect.poll(frames).toBeGreaterThan(3);
    const shown = [...(await said.innerText()).split('”: ')[1]!.matchAll(/“(.+?)” (\d\.\d+)/g)];
    const query = await model.embed([description], { dimensions: index.dimensions, normalize: true });
    const expected = nearestWords(index, description, query, 5);
    expect(shown.map(([, word]) => word)).toEqual(expected.map(({ text }) => text));
    for (const [i, [, , score]] of shown.entries())
      expect(Math.abs(Number(score) - expected[i]!.score)).toBeLessThan(0.00501);
    expect((await page.locator('.words .word').allInnerTexts()).slice(0, 5)).toEqual(shown.map(([, word]) => word));
    await page.getByLabel('Describe something').fill('');
    await expect.poll(() => said.innerText()).toBe('');
    await context.close();
  });

  it('shows the sentences of the document', async () => {
    const { page } = await site.open('#meaning?map=document');
    await page
      .locator('#map-note')
      .getByText(/^\d+ sentences, laid out by UMAP/)
      .waitFor();
  });
});
