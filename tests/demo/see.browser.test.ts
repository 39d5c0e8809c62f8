/** The first page, the way from it to “Compute”, and the tour. */

import { load } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { DescribedHead, SenseView } from '../../demo/src/engine/senses';
import { viewSense } from '../../demo/src/engine/senses';
import { steps } from '../../demo/src/pages/compute/tour-data';
import measured from '../../demo/src/pages/see/measured.json';
import { words } from '../../demo/src/pages/see/words';
import { newVisit, openSite, type Site, shownMatrix } from './site';

const described = measured.described as DescribedHead[];

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

const byHand = (page: Page) => page.getByRole('button', { name: 'Compute this weight by hand' });
const tokens = (page: Page, side: number) => page.locator('.side').nth(side).locator('.weighted');
/** The shares of a side, in percent. */
const shares = async (page: Page, side: number) =>
  (await tokens(page, side).locator('small').allInnerTexts()).map((text) => Number.parseInt(text, 10));

describe('the first page', () => {
  it('shows every example at once, without the model', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.route(/\.wasm|worker-|safetensors/, () => {});
    await page.goto(site.url);
    for (const { word, sentences } of words) {
      await page.getByRole('button', { name: word, exact: true }).click();
      await page.locator('.verdict').getByText(`“${word}” enters both sentences`).waitFor();
      const { cosines, pair } = measured.views.find((each) => each.word === word)!;
      expect(await page.locator('.path b').allInnerTexts()).toEqual(cosines.map((cosine) => cosine.toFixed(2)));
      for (const [side, sentence] of sentences.entries()) {
        expect(await page.locator('.side input').nth(side).inputValue()).toBe(sentence);
        expect(await shares(page, side)).toEqual(
          pair[side]!.rows.others.map((share) => Number((100 * share).toFixed(0))),
        );
      }
    }
    // Typing marks the picture as outdated and says how far the download is.
    await page.locator('.side input').first().fill('A light rain.');
    await page.getByText(/Outdated: .* The model is being loaded: 0 %/).waitFor();
    await context.close();
  });

  it('Back returns to the previous example', async () => {
    const { page } = await site.open('#see');
    const verdict = page.locator('.verdict');
    for (const { word } of words.slice(1, 3)) await page.getByRole('button', { name: word, exact: true }).click();
    await verdict.getByText(`“${words[2]!.word}”`).waitFor();
    await page.goBack();
    await verdict.getByText(`“${words[1]!.word}”`).waitFor();
    await page.goBack();
    await verdict.getByText(`“${words[0]!.word}”`).waitFor();
  });

  it('computes what one types, as the library does, and opens a layer in place', async () => {
    const { page, complaints } = await site.open('#see');
    const pair: [string, string] = ['The bank closed early.', 'A muddy bank of the river.'];
    for (const [side, sentence] of pair.entries()) await page.locator('.side input').nth(side).fill(sentence);
    await page.locator('.verdict').getByText('“bank”').waitFor();
    await expect.poll(() => page.locator('.outdated').count()).toBe(0);
    const heed = await load();
    const model = await heed.fromPretrained();
    const expected = (await viewSense(model, pair, 'bank', described)) as SenseView;
    for (const side of [0, 1] as const) {
      expect(await tokens(page, side).evaluateAll((all) => all.map((one) => one.firstChild!.textContent))).toEqual(
        expected.pair[side].tokens,
      );
      for (const [i, share] of (await shares(page, side)).entries())
        expect(Math.abs(share / 100 - expected.pair[side].rows.others![i]!)).toBeLessThan(0.0101);
    }
    const shown = (await page.locator('.path b').allInnerTexts()).map(Number);
    for (const [i, cosine] of shown.entries()) expect(Math.abs(cosine - expected.cosines[i]!)).toBeLessThan(0.0101);
    await page.getByRole('button', { name: /^layer 1/ }).click();
    await expect.poll(() => page.locator('.layer-heads tbody tr').count()).toBe(measured.heads);
    heed.dispose();
    expect(complaints).toEqual([]);
  });

  it('shows the first layer of what one types while the model is being loaded, then all layers', async () => {
    const { page, context, complaints } = await newVisit(site.browser, { serviceWorkers: 'block' });
    let plain = 0;
    let serve: () => void = () => {};
    await context.route(/model-.*safetensors/, (route) => {
      // The first request is of the first layer, which then asks for ranges; the next is of the whole model.
      if (route.request().headers().range || plain++ === 0) return route.continue();
      serve = () => void route.continue();
    });
    await page.goto(site.url);
    const pair: [string, string] = ['The bank closed early.', 'A muddy bank of the river.'];
    for (const [side, sentence] of pair.entries()) await page.locator('.side input').nth(side).fill(sentence);
    await page.getByText('The first of 6 layers is here and computes.').waitFor();
    const heed = await load();
    const first = await heed.fromPretrained(undefined, { numLayers: 1 });
    const expected = (await viewSense(first, pair, 'bank', described)) as SenseView;
    for (const side of [0, 1] as const)
      for (const [i, share] of (await shares(page, side)).entries())
        expect(Math.abs(share / 100 - expected.pair[side].rows.others![i]!)).toBeLessThan(0.0101);
    expect(await page.locator('.path b').allInnerTexts()).toEqual([
      ...expected.cosines.map((cosine) => cosine.toFixed(2)),
      ...new Array(measured.layers - 1).fill('…'),
    ]);
    heed.dispose();
    await page.getByText('next word', { exact: true }).click(); // a head of the second layer
    expect(await tokens(page, 0).locator('small').first().innerText()).toBe('…');
    serve();
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    await expect.poll(() => page.locator('.path b').allInnerTexts()).not.toContain('…');
    expect((await shares(page, 0)).every(Number.isFinite)).toBe(true);
    expect(complaints).toEqual([]);
    await context.close();
  });

  it('the choice follows the word, and says why a picture cannot be drawn', async () => {
    const { page } = await site.open('#see');
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    const [first, second] = [page.locator('.side input').first(), page.locator('.side input').nth(1)];
    await first.fill('The old bank is near the old river.');
    await second.fill('An old man went to the bank.');
    await tokens(page, 0).filter({ hasText: 'bank' }).click();
    await page.locator('.verdict').getByText('“bank”').waitFor();
    await first.fill('Yesterday the old bank is near the old river.');
    await tokens(page, 0).filter({ hasText: 'yesterday' }).waitFor();
    await expect.poll(() => page.locator('.weighted[aria-pressed=true]').first().innerText()).toContain('bank');
    await tokens(page, 0).filter({ hasText: 'river' }).click();
    await page.getByText('“river” is only in this sentence.').waitFor();
    await second.fill('');
    await page.getByText('Write a sentence in both boxes.').waitFor();
    await second.fill('Cats sleep.');
    await page.getByText('These sentences have no word in common.').waitFor();
    await second.fill('The bank 漢字.');
    await page.getByText('as the unknown token [UNK]').waitFor();
  });

  it('carries the query and the keys of the model into “Compute”, where they give the same weights', async () => {
    const { page, complaints } = await site.open('#see');
    await byHand(page).and(page.locator(':enabled')).waitFor();
    const expected = await shares(page, 0);
    await byHand(page).click();
    await page.getByRole('heading', { name: 'Compute' }).waitFor();
    await expect.poll(async () => (await shownMatrix(page, 'attention'))[0]!.length).toBe(expected.length);
    const [weights] = await shownMatrix(page, 'attention');
    weights!.forEach((weight, key) => expect(Math.abs(100 * weight - expected[key]!)).toBeLessThan(1.6));
    expect(await page.locator('#products tr').first().locator('td').count()).toBe(measured.width / measured.heads);
    expect(await page.locator('.hint').innerText()).toContain(
      `the query of “${words[0]!.word}” as the model computed it`,
    );
    // Nothing is pointed at by a pointer that has not moved.
    const chosen = await page.locator('#cell').innerText();
    expect(chosen).toContain(`Weight ${Math.max(...weights!).toFixed(2)}`);
    // The link has all of it.
    await expect.poll(() => page.url()).toContain('preset=model');
    const link = page.url();
    await page.goto('about:blank');
    await page.goto(link);
    await expect.poll(() => shownMatrix(page, 'attention')).toEqual([weights]);
    expect(complaints).toEqual([]);
  });

  it('the steps of the tour compute what they show', async () => {
    const { page } = await site.open('#see');
    const slider = page.getByLabel('Turn the query');
    for (const degrees of [20, 95]) {
      await slider.fill(String(degrees));
      const [x, y] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
      const scores = [2 * x, 2 * y, -x - y];
      const total = scores.reduce((sum, score) => sum + Math.exp(score), 0);
      const weights = scores.map((score) => Math.exp(score) / total);
      const number = (text: string) => Number.parseFloat(text.replace('−', '-'));
      await expect
        .poll(async () => (await page.locator('#dots .score').allInnerTexts()).map(number))
        .toEqual(scores.map((score) => Number(score.toFixed(2)) + 0));
      expect((await page.locator('#softmaxes .score').allInnerTexts()).map(number)).toEqual(
        weights.map((weight) => Math.round(100 * weight)),
      );
      const output = [weights[0]! + 0.2 * weights[2]!, weights[1]! + 0.2 * weights[2]!];
      expect(await page.locator('#mixed-output').innerText()).toContain(
        `= (${output.map((entry) => entry.toFixed(2)).join(', ')})`,
      );
    }
  });

  it('moves the focus to the heading of a page that one goes to', async () => {
    const { page } = await site.open('#see');
    const focused = () => page.evaluate(() => document.activeElement!.localName + document.activeElement!.textContent);
    for (const name of ['Meaning', 'Compute', 'Teach it', 'Inside']) {
      await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name, exact: true }).click();
      await expect.poll(focused).toBe(`h1${name}`);
    }
  });
});

describe('the tour', () => {
  it('has six steps, with previous, next, keys and the state in the address', async () => {
    const { page, complaints } = await site.open('#compute');
    await page.getByRole('link', { name: 'Why does it have these parts?' }).click();
    for (const [i, { title }] of steps.entries()) {
      await page.getByRole('heading', { name: title }).waitFor();
      await expect.poll(() => page.url()).toContain(`tour=${i + 1}`);
      if (i === 2) await page.getByRole('button', { name: 'Next' }).click();
      else if (i < 5) await page.evaluate(() => document.body.focus()).then(() => page.keyboard.press('ArrowRight'));
    }
    await page.keyboard.press('PageUp');
    await page.getByRole('heading', { name: steps[4]!.title }).waitFor();
    await page.getByRole('button', { name: 'Previous' }).click();
    await page.getByRole('heading', { name: steps[3]!.title }).waitFor();
    await page.getByRole('button', { name: 'End the tour' }).click();
    await page.getByRole('heading', { name: 'Compute' }).waitFor();
    expect(complaints).toEqual([]);
  });

  it('has something to try, which can be undone and is part of the link', async () => {
    const { page } = await site.open('#compute?tour=5');
    await page.getByRole('heading', { name: steps[4]!.title }).waitFor();
    await expect
      .poll(async () => (await shownMatrix(page, 'output'))[0])
      .toEqual((await shownMatrix(page, 'output'))[2]);
    await page.getByRole('button', { name: 'Try: Add the positional encoding' }).click();
    await page.getByText(steps[4]!.attempt.see).waitFor();
    const tried = await shownMatrix(page, 'output');
    expect(tried[0]).not.toEqual(tried[2]);
    await expect.poll(() => page.url()).toContain('positions=add');
    const link = page.url();
    await page.goto('about:blank');
    await page.goto(link);
    await page.getByRole('heading', { name: steps[4]!.title }).waitFor();
    await expect.poll(() => shownMatrix(page, 'output')).toEqual(tried);
    await page.getByRole('button', { name: 'Start this step again' }).click();
    await expect
      .poll(async () => (await shownMatrix(page, 'output'))[0])
      .toEqual((await shownMatrix(page, 'output'))[2]);
  });

  it('has large type for a room, and arrow keys in fields keep their meaning', async () => {
    const { page } = await site.open('#compute?tour=1');
    await page.getByRole('heading', { name: steps[0]!.title }).waitFor();
    const size = () => page.evaluate(() => Number.parseFloat(getComputedStyle(document.documentElement).fontSize));
    const before = await size();
    await page.getByText('Large type').click();
    await expect.poll(size).toBeGreaterThan(1.2 * before);
    await expect.poll(() => page.url()).toContain('large=1');
    await page.locator('#x input').first().focus();
    await page.keyboard.press('ArrowRight');
    await page.getByRole('heading', { name: steps[0]!.title }).waitFor();
    await page.getByRole('button', { name: 'End the tour' }).click();
    await expect.poll(size).toBe(before);
  });
});
