/** The map on “Meaning”: the words, their neighbours and their cosines are those of the library. */
import { fileURLToPath } from 'node:url';
import { type Heed, load, type PretrainedModel, similarity } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSite, type Site, visit } from './site';

let site: Site;
let heed: Heed;
let model: PretrainedModel;
beforeAll(async () => {
  [site, heed] = await Promise.all([openSite(), load()]);
  model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
});
afterAll(async () => {
  heed?.dispose();
  await site?.close();
});

async function wordsOnMap(): Promise<string[]> {
  const index = await heed.TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
  return index.texts.filter((_, i) => i >= 100 && (i - 100) % 4 === 0).slice(0, 1000);
}

describe('the map', () => {
  it('names the nearest words of the one that is pointed at', async () => {
    const { page, complaints } = await site.open('#meaning');
    const said = page.locator('#map-said');
    await page.locator('#map-note').getByText('1,000 words, laid out by UMAP').waitFor();
    const box = (await page.locator('.map canvas').boundingBox())!;
    // Some point is near one of these places.
    for (let i = 0; i < 200 && !(await said.innerText()).includes('nearest are'); i++)
      await page.mouse.move(box.x + 40 + ((37 * i) % (box.width - 80)), box.y + 40 + ((53 * i) % (box.height - 80)));
    const text = await said.innerText();
    const [, word] = /^“(.+?)”: nearest are/.exec(text)!;
    const shown = [...text.slice(text.indexOf('nearest')).matchAll(/“(.+?)” (−?\d\.\d+)/g)].map(
      ([, name, score]) => [name!, Number(score!.replace('−', '-'))] as const,
    );
    expect(shown).toHaveLength(5);
    const words = await wordsOnMap();
    expect(words).toContain(word);
    const vectors = await model.embed(words);
    const scores = similarity(await model.embed([word!]), vectors).toArray<number[][]>()[0]!;
    const best = words.map((name, i) => ({ name, score: scores[i]! })).filter(({ name }) => name !== word);
    best.sort((a, b) => b.score - a.score);
    for (const [rank, [name, score]] of shown.entries()) {
      expect(Math.abs(score - best[rank]!.score)).toBeLessThan(0.00501);
      expect(Math.abs(score - best.find((each) => each.name === name)!.score)).toBeLessThan(0.00501);
    }
    expect(complaints).toEqual([]);
  });

  it('names what is nearest to the description on each keystroke, and the points move there', async () => {
    const { page, context } = await visit(site, '#meaning', {
      serviceWorkers: 'block',
      reducedMotion: 'no-preference',
    });
    const said = page.locator('#map-said');
    await page.locator('#map-note').getByText('1,000 words, laid out by UMAP').waitFor();
    await said.getByText('Nearest to “').waitFor();
    // The layout has ended when two seconds bring no other picture.
    const picture = () => page.locator('.map canvas').evaluate((canvas) => (canvas as HTMLCanvasElement).toDataURL());
    let last = '';
    await expect
      .poll(
        async () => {
          const before = last;
          last = await picture();
          return before === last;
        },
        { interval: 2000 },
      )
      .toBe(true);
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
    const shown = [...(await said.innerText()).split('”: ')[1]!.matchAll(/“(.+?)” (−?\d\.\d+)/g)];
    const words = await wordsOnMap();
    const vectors = await model.embed(words);
    const scores = similarity(await model.embed([description]), vectors).toArray<number[][]>()[0]!;
    const sorted = [...scores].sort((a, b) => b - a);
    expect(shown).toHaveLength(5);
    for (const [rank, [, word, score]] of shown.entries()) {
      expect(Math.abs(Number(score!.replace('−', '-')) - sorted[rank]!)).toBeLessThan(0.00501);
      expect(Math.abs(scores[words.indexOf(word!)]! - sorted[rank]!)).toBeLessThan(0.00501);
    }
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
