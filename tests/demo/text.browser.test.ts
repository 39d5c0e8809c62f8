/** The pages “Meaning” and “Inside”: compares the numbers on the page with those of the library in Node. */
import { fileURLToPath } from 'node:url';
import { type Heed, load, type PretrainedModel } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { largestDifference, openSite, type Site, shownMatrix, shownWithin } from './site';

let site: Site;
let heed: Heed;
let model: PretrainedModel;
beforeAll(async () => {
  [site, heed] = await Promise.all([openSite(), load()]);
  model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
});
afterAll(async () => {
  model?.dispose();
  await site?.close();
});

const sentences = ['The cat sat on the mat.', 'A kitten rests on a rug.', 'Shares fell sharply on Monday.'];
const written = `text=${encodeURIComponent(sentences.join('\n'))}`;

async function cosines(texts: string[]): Promise<number[][]> {
  const vectors = await model.embed(texts, { normalize: true });
  return heed.linear(vectors, { weight: vectors }).toArray() as number[][];
}

const centred = (rows: number[][]): number[][] => {
  const mean = rows[0]!.map((_, j) => rows.reduce((sum, row) => sum + row[j]!, 0) / rows.length);
  return rows.map((row) => row.map((entry, j) => entry - mean[j]!));
};

const totalVariance = (rows: number[][]): number =>
  centred(rows).reduce((sum, row) => sum + row.reduce((inner, entry) => inner + entry ** 2, 0), 0);

/** The two largest variances over all directions, by power iteration on the covariance, independently of the page's code. */
function twoLargestVariances(rows: number[][]): number[] {
  let left = centred(rows);
  return [0, 1].map(() => {
    let direction = left[0]!.map((_, j) => Math.sin(j + 1));
    let variance = 0;
    for (let i = 0; i < 300; i++) {
      const products = left.map((row) => row.reduce((sum, entry, j) => sum + entry * direction[j]!, 0));
      const next = direction.map((_, j) => left.reduce((sum, row, k) => sum + row[j]! * products[k]!, 0));
      variance = Math.hypot(...next);
      direction = next.map((entry) => entry / variance);
    }
    const found = direction;
    left = left.map((row) => {
      const along = row.reduce((sum, entry, j) => sum + entry * found[j]!, 0);
      return row.map((entry, j) => entry - along * found[j]!);
    });
    return variance;
  });
}

/** The weights in “cat” attends to “the” 12 %, ... */
const percents = (words: string): number[] => [...words.matchAll(/(\d+) %/g)].map(([, share]) => Number(share) / 100);

describe('sentences', () => {
  it('computes the similarity of the sentences in the text box', async () => {
    const { page, complaints } = await site.open('#meaning');
    await page.waitForSelector('#cosines');
    await page.getByLabel('Your sentences').fill(sentences.join('\n'));
    const expected = await cosines(sentences);
    await expect
      .poll(async () => largestDifference(await shownMatrix(page, 'cosines'), expected))
      .toBeLessThan(shownWithin);
    expect(complaints).toEqual([]);
  });

  it('describes the attention of any layer and head', async () => {
    const { numLayers, numHeads } = model.config;
    const { attentions, tokens } = await model.encode([sentences[0]!], { outputAttentions: true });
    const length = tokens[0]!.length;
    for (const [layer, head] of [
      [0, 0],
      [numLayers - 1, numHeads - 1],
    ] as const) {
      const { page } = await site.open(`#inside?${written}&head=${layer + 1}.${head + 1}`);
      const queries = page.locator('.queries .token');
      await queries.first().waitFor();
      expect(await queries.allInnerTexts()).toEqual(tokens[0]);
      for (const query of [0, 2, length - 1]) {
        const start = (head * length + query) * length;
        const shares = [...attentions![layer]!.data.subarray(start, start + length)].sort((a, b) => b - a);
        const shown = percents((await queries.nth(query).getAttribute('aria-label'))!);
        expect(shown.length).toBe(4);
        for (const [rank, share] of shown.entries()) expect(Math.abs(share - shares[rank]!)).toBeLessThan(shownWithin);
      }
    }
  });

  it('paints the heat map from the same weights', async () => {
    const { attentions, tokens } = await model.encode([sentences[0]!], { outputAttentions: true });
    const length = tokens[0]!.length;
    const { page } = await site.open(`#inside?${written}&view=map&head=1.2`);
    await page.locator('.map-area canvas').waitFor();
    const alphas = await page.locator('.map-area canvas').evaluate((canvas: HTMLCanvasElement) => {
      const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
      return Array.from({ length: data.length / 4 }, (_, i) => data[4 * i + 3]! / 255);
    });
    const weights = attentions![0]!.data.subarray(length * length, 2 * length * length);
    expect(alphas.length).toBe(weights.length);
    for (const [i, alpha] of alphas.entries()) expect(Math.abs(alpha - weights[i]! ** 0.6)).toBeLessThan(0.01);
  });

  it('finds words by their description', async () => {
    const description = 'a large body of salt water';
    const { page, complaints } = await site.open(`#meaning?define=${description.replaceAll(' ', '+')}`);
    await page.locator('.words .word').first().waitFor();
    const shown = await page.locator('.words li').evaluateAll((items) =>
      items.map((item) => ({
        word: item.querySelector('.word')!.textContent!,
        score: Number(item.querySelector('.score')!.textContent),
      })),
    );
    expect(shown.length).toBe(12);
    const index = await heed.TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
    const { dimensions } = index;
    const query = await model.embed([description], { dimensions, normalize: true });
    const expected = index.search(query, { topK: 100 }).filter(({ text }) => !description.split(' ').includes(text));
    shown.forEach(({ word, score }, rank) => {
      // Builds of the module differ in the last bits, which may swap words of nearly the same score.
      expect(Math.abs(score - expected[rank]!.score)).toBeLessThan(shownWithin);
      expect(Math.abs(score - expected.find(({ text }) => text === word)!.score)).toBeLessThan(shownWithin);
    });
    await page.getByLabel('Describe something').fill('person who studies insects');
    await expect
      .poll(async () => page.locator('.words .word').allInnerTexts())
      .not.toEqual(shown.map(({ word }) => word));
    const answers = await page.locator('.words .word').allInnerTexts();
    expect(answers).toHaveLength(12);
    expect(answers).not.toContain('bugger'); // which is among the nearest words
    expect(complaints).toEqual([]);
  });

  it('projects the hidden states of each layer onto their two principal components', async () => {
    const { hiddenStates, tokens, attentionMask } = await model.encode(sentences, { outputHiddenStates: true });
    const count = tokens.flat().length;
    const { page } = await site.open(`#inside?part=states&${written}`);
    const section = page.locator('section[aria-labelledby="projection"]');
    for (const step of [0, hiddenStates!.length - 1]) {
      await page.evaluate((to) => {
        location.hash = location.hash.replace(/&step=\d+|$/, `&step=${to}`);
      }, step);
      await section.getByText(step === 0 ? 'embeddings' : `after layer ${step}`, { exact: true }).waitFor();
      const { data, shape } = hiddenStates![step]!;
      const width = shape[2]!;
      const rows = Array.from(attentionMask.data, (real, row) =>
        real ? [...data.subarray(row * width, (row + 1) * width)] : [],
      ).filter((row) => row.length > 0);
      expect(rows.length).toBe(count);
      const [plane, whole] = [twoLargestVariances(rows), totalVariance(rows)];
      const kept = plane.reduce((sum, variance) => sum + variance, 0) / whole;
      const said = Number(/explain (\d+) %/.exec(await section.innerText())![1]) / 100;
      expect(Math.abs(said - kept)).toBeLessThan(0.0101);
      // The picture may be rotated, reflected and scaled, which keeps the ratio of the two variances. It is drawn after a delay.
      const ratio = async () => {
        const dots = await section
          .locator('circle')
          .evaluateAll((circles) =>
            circles.map((circle) => ['cx', 'cy'].map((place) => Number(circle.getAttribute(place)))),
          );
        if (dots.length !== count) return NaN;
        const [first, second] = twoLargestVariances(dots);
        return first! / second! / (plane[0]! / plane[1]!);
      };
      await expect.poll(ratio).toBeCloseTo(1, 2);
    }
  });

  it('handles an empty text box and 100,000 characters', async () => {
    const { page, complaints } = await site.open('#meaning');
    await page.waitForSelector('#cosines');
    const box = page.getByLabel('Your sentences');
    await box.fill('');
    await page.getByText('Write a sentence').waitFor();
    await box.fill('attention is all you need '.repeat(4000).slice(0, 100_000));
    await page
      .getByText('was not read: the text is longer')
      .or(page.getByText('were not read: the text is longer'))
      .waitFor();
    expect(await page.getByRole('button', { name: 'Copy link' }).isDisabled()).toBe(true);
    await box.fill(Array.from({ length: 20 }, (_, i) => `sentence ${i}`).join('\n'));
    await page.getByText('8 further lines were left out').waitFor();
    await box.fill('\ud800 lone surrogate');
    await expect.poll(async () => (await shownMatrix(page, 'cosines')).length).toBe(1);
    expect(complaints).toEqual([]);
  });
});
