/** The first page, the way from it to “Compute”, and the tour. */

import { readFile, stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { type Heed, load, type PretrainedModel } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { percent } from '../../demo/src/components/numbers';
import type { DescribedHead } from '../../demo/src/engine/senses';
import { nearest, trace } from '../../demo/src/engine/stage';
import { steps } from '../../demo/src/pages/compute/tour-data';
import { type Measured, readTrace, readWords } from '../../demo/src/pages/see/measured';
import measured from '../../demo/src/pages/see/measured.json';
import others from '../../demo/src/pages/see/others.json';
import { words } from '../../demo/src/pages/see/words';
import { newVisit, openSite, type Site, shownMatrix } from './site';

const described = measured.described as DescribedHead[];
const examples = [...measured.examples, ...others.examples] as {
  sentences: Measured[];
  different: number[];
  same: number[];
}[];

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

const side = (page: Page, at: number) => page.locator('.side').nth(at);
const tokens = (page: Page, at: number) => side(page, at).locator('.weighted');
const field = (page: Page, at: number) => side(page, at).locator('input');
/** The shares of a side, in percent. */
const shares = async (page: Page, at: number) =>
  (await tokens(page, at).locator('small').allInnerTexts()).map((text) => Number.parseInt(text, 10));
/** The words beside the layers, from the input to the last. */
const shownWords = async (page: Page, at: number) =>
  (await side(page, at).locator('.near').allInnerTexts()).map((text) => text.split(/\s+/)).reverse();
const byHand = (page: Page) => page.getByRole('button', { name: 'Compute this weight by hand' });

/** The words that belong beside the layers for a token, computed with the library. */
async function expectedWords(heed: Heed, model: PretrainedModel, sentence: string, token: string, off: number[] = []) {
  const index = await heed.TextIndex.load(fileURLToPath(new URL('../../web/model/dictionary', import.meta.url)));
  const traced = await trace(model, sentence, off, described);
  const at = traced.tokens.indexOf(token);
  return { traced, at, words: await nearest(model, index, new Map(), token, traced.states![at]!) };
}

describe('the first page', () => {
  it('shows every example and every token at once, without the model', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.route(/\.wasm|worker-|safetensors/, () => {});
    await page.goto(site.url);
    for (const [i, { word, sentences }] of words.entries()) {
      await page.getByRole('button', { name: word, exact: true }).first().click();
      for (const at of [0, 1] as const) {
        const built = examples[i]!.sentences[at]!;
        const trace = readTrace(built);
        await expect.poll(() => field(page, at).inputValue()).toBe(sentences[at]);
        for (const [token, name] of trace.tokens.entries()) {
          if (!built.words[token]) continue;
          await tokens(page, at).nth(token).click();
          await expect.poll(() => shownWords(page, at), { message: name }).toEqual(readWords(built.words[token]));
          expect(await shares(page, at)).toEqual(trace.means.at(-1)![token]!.map((share) => Math.round(100 * share)));
        }
      }
    }
    // Typing says in the first screen how far the download is, and moves nothing.
    await field(page, 0).fill('A light rain.');
    const said = page.locator('.verdict').getByText(/still being loaded, 0 %/);
    await said.waitFor();
    expect((await said.boundingBox())!.y).toBeLessThan(500);
    await context.close();
  });

  it('switches attention off with one click, without the model, and the word falls back', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.route(/\.wasm|worker-|safetensors/, () => {});
    await page.goto(site.url);
    const [, river] = examples[0]!.sentences as [Measured, Measured];
    await side(page, 1).locator('.outcome').getByText('river', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Switch attention off' }).click();
    await expect.poll(() => shownWords(page, 1)).toEqual(readWords(river.without));
    expect(await page.locator('.verdict').innerText()).toContain(
      `ends near ${readWords(river.without)!.at(-1)![0]} in one sentence`,
    );
    await page.getByRole('button', { name: 'Switch attention on' }).click();
    await side(page, 1).locator('.outcome').getByText('river', { exact: true }).waitFor();
    await context.close();
  });

  it('the ribbons follow the token, the layer and attention, which are drawn first', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    await page.route(/\.wasm|worker-|safetensors/, () => {});
    await page.goto(site.url);
    const { tokens: names, means } = readTrace(examples[0]!.sentences[0]!);
    const layers = side(page, 0).locator('.lanes g');
    const titles = (number: number) =>
      layers
        .nth(number - 1)
        .locator('title')
        .allTextContents();
    await tokens(page, 0).nth(2).click();
    for (const [i, weights] of means.entries())
      await expect
        .poll(() => titles(i + 1))
        .toEqual(weights[2]!.map((share, to) => `layer ${i + 1}: ${percent(share)} to “${names[to]}”`));
    await side(page, 0).getByRole('button', { name: 'layer 4' }).click();
    await expect.poll(() => side(page, 0).locator('.lanes g.above').count()).toBe(means.length - 4);
    await page.getByRole('button', { name: 'Switch attention off' }).click();
    await expect.poll(() => titles(1)).toEqual(names.map((name) => `layer 1: ${percent(0)} to “${name}”`));
    await context.close();
  });

  it('Back returns to the previous example', async () => {
    const { page } = await site.open('#see');
    const verdict = page.locator('.verdict');
    for (const { word } of words.slice(1, 3))
      await page.getByRole('button', { name: word, exact: true }).first().click();
    await verdict.getByText(`“${words[2]!.word}”`).waitFor();
    await page.goBack();
    await verdict.getByText(`“${words[1]!.word}”`).waitFor();
    await page.goBack();
    await verdict.getByText(`“${words[0]!.word}”`).waitFor();
  });

  it('computes what one types, as the library does, also with layers switched off', async () => {
    const { page, complaints } = await site.open('#see');
    const pair: [string, string] = ['The bank closed early.', 'A muddy bank of the river.'];
    for (const [at, sentence] of pair.entries()) await field(page, at).fill(sentence);
    const heed = await load();
    const model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
    for (const off of [[], [1, 6]]) {
      for (const number of off)
        await page.getByRole('group', { name: 'Attention, layer by layer' }).getByText(String(number)).click();
      for (const [at, sentence] of pair.entries()) {
        const expected = await expectedWords(heed, model, sentence, 'bank', off);
        await expect.poll(() => shownWords(page, at), { timeout: 60_000 }).toEqual(expected.words);
        const row = off.length > 0 ? null : expected.traced.means.at(-1)![expected.at]!;
        for (const [i, share] of row ? (await shares(page, at)).entries() : [])
          expect(Math.abs(share / 100 - row![i]!)).toBeLessThan(0.0101);
      }
    }
    expect(await page.locator('.outdated').count()).toBe(0);
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
    for (const [at, sentence] of pair.entries()) await field(page, at).fill(sentence);
    await page.getByText('The first of 6 layers is here and computes.').waitFor();
    await page.getByLabel('Up to layer').fill('1');
    const heed = await load();
    const first = await heed.fromPretrained(undefined, { numLayers: 1, dtype: 'fp32' });
    for (const [at, sentence] of pair.entries()) {
      const { tokens, means } = await trace(first, sentence, [], described);
      for (const [i, share] of (await shares(page, at)).entries())
        expect(Math.abs(share / 100 - means[0]![tokens.indexOf('bank')]![i]!)).toBeLessThan(0.0101);
    }
    heed.dispose();
    await page.getByLabel('Up to layer').fill('6');
    expect(await tokens(page, 0).locator('small').first().innerText()).toBe('–');
    serve();
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    await expect.poll(async () => (await shares(page, 0)).every(Number.isFinite)).toBe(true);
    expect(complaints).toEqual([]);
    await context.close();
  });

  it('a token that only one sentence has is followed there, and texts that cannot be read are explained', async () => {
    const { page } = await site.open('#see');
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    await tokens(page, 1).filter({ hasText: 'walked' }).click();
    await side(page, 1).locator('.outcome').getByText('“walked”').waitFor();
    await side(page, 0).locator('.outcome').getByText('“bank”').waitFor();
    await expect.poll(() => page.url()).toContain('at=1.2');
    await field(page, 1).fill('');
    await page.getByText('Write a sentence in both boxes.').waitFor();
    await field(page, 1).fill('The bank 漢字.');
    await page.getByText('as the unknown token [UNK]').waitFor();
  });

  it('a link copies the exact stage', async () => {
    const query = new URLSearchParams({
      a: 'A ring of gold.',
      b: 'They ring the bell.',
      word: 'ring',
      off: '2,3',
      layer: '4',
      head: '3.5',
    });
    const { page } = await site.open(`#see?${query}`);
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    await expect.poll(() => page.locator('.outdated').count()).toBe(0);
    expect(await field(page, 0).inputValue()).toBe('A ring of gold.');
    expect(await page.getByLabel('Up to layer').inputValue()).toBe('4');
    expect(await page.locator('.layer-switches [aria-pressed=false]').allInnerTexts()).toEqual(['2', '3']);
    await page.getByText('The ribbons of layer 3 are those of head 5').waitFor();
    await expect.poll(() => new URLSearchParams(page.url().split('#see?')[1])).toEqual(query);
  });

  it('chooses one of all heads, and saves a picture', async () => {
    const { page, complaints } = await site.open('#see');
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    await page.getByText('All 72 heads of “bank”').click();
    const { layers, heads } = measured;
    await expect.poll(() => page.locator('.heads-of-layer button').count()).toBe(layers * heads);
    await page.getByRole('button', { name: /^Layer 3, head 5:/ }).click();
    await page.getByText('The ribbons of layer 3 are those of head 5').waitFor();
    const heed = await load();
    const { all, tokens: names } = await trace(
      await heed.fromPretrained(undefined, { dtype: 'fp32' }),
      words[0]!.sentences[1],
      [],
      described,
    );
    const row = all![2]![4]![names.indexOf('bank')]!;
    for (const [i, share] of (await shares(page, 1)).entries())
      expect(Math.abs(share / 100 - row[i]!)).toBeLessThan(0.0101);
    heed.dispose();
    const saved = page.waitForEvent('download');
    await page.getByRole('button', { name: 'Save a picture' }).click();
    const picture = await readFile(await (await saved).path());
    expect(picture.toString('latin1', 1, 4)).toBe('PNG');
    expect([picture.readUInt32BE(16), picture.readUInt32BE(20)]).toEqual([2400, 1260]);
    expect(complaints).toEqual([]);
  });

  it('the tokens rise by themselves, and can be stopped', async () => {
    const { page } = await site.open('#see');
    await page.getByRole('button', { name: 'Let it rise' }).click();
    await page.getByRole('button', { name: 'Pause' }).waitFor();
    await expect.poll(() => page.getByLabel('Up to layer').inputValue()).toBe('1');
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.getByRole('button', { name: 'Let it rise' }).waitFor();
  });

  it('says true numbers', async () => {
    const { page } = await site.open('#see');
    await page.locator('.status-line').getByText('Loaded:').waitFor();
    const heed = await load();
    const { parameterCount } = (await heed.fromPretrained(undefined, { dtype: 'fp32' })).config;
    heed.dispose();
    expect(await page.locator('.see .lede').innerText()).toContain(`${(parameterCount / 1e6).toFixed(1)} million`);
    const model = (
      await Promise.all(
        ['config.json', 'tokenizer.json', 'model.safetensors'].map((name) =>
          stat(fileURLToPath(new URL(`../../web/model/${name}`, import.meta.url))),
        ),
      )
    ).reduce((sum, { size }) => sum + size, 0);
    expect(await page.locator('.see > .facts').innerText()).toContain(`${(model / 1e6).toFixed(1)} MB of weights`);
    await page.locator('.control summary').click();
    const rows = await page
      .locator('.cosine-table tbody tr')
      .evaluateAll((all) => all.map((row) => [...row.querySelectorAll('td')].map((cell) => cell.textContent)));
    expect(rows).toEqual(
      [examples[0]!.different, examples[0]!.same].map((row) => row.map((value) => value.toFixed(2))),
    );
  });

  it('carries the query and the keys of a ribbon into “Compute”, where they give the same weights', async () => {
    const { page, complaints } = await site.open('#see?head=others&layer=1');
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
