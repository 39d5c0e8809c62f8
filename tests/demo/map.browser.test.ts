/** The map on “Meaning”: the words, their neighbours and their cosines are those of the library. */
import { fileURLToPath } from 'node:url';
import { type Heed, load, type PretrainedModel, similarity, TextIndex } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSite, type Site } from './site';

let site: Site;
let heed: Heed;
let model: PretrainedModel;
beforeAll(async () => {
  [site, heed] = await Promise.all([openSite(), load()]);
  model = await heed.fromPretrained();
});
afterAll(async () => {
  heed?.dispose();
  await site?.close();
});

describe('the map', () => {
  it('names the nearest words of the one that is pointed at', async () => {
    const { page, complaints } = await site.open('#meaning');
    const said = page.locator('#map-said');
    await said.getByText('1,000 words, laid out by UMAP').waitFor();
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
    const index = await TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
    const words = index.texts.filter((_, i) => i >= 100 && (i - 100) % 4 === 0).slice(0, 1000);
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

  it('shows the sentences of the document', async () => {
    const { page } = await site.open('#meaning?map=document');
    await page
      .locator('#map-said')
      .getByText(/^\d+ sentences, laid out by UMAP/)
      .waitFor();
  });
});
