/** “Code” on every page: the program is run in Node and prints the numbers that the page shows. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tinyModel } from '../web/models/tiny';
import { drawn, giveOwnClock, openSite, type Site, sharedLabels, shownMatrix, shownWithin, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

// Inside the repository, where Node finds the package by its name.
const folder = fileURLToPath(new URL('../../build/tests/code/', import.meta.url));
let programs = 0;

/** Runs the program of the page, after `edit`, and returns what it prints. */
async function printed(page: Page, edit = (code: string) => code): Promise<string> {
  if ((await page.locator('.program[open]').count()) === 0) await page.locator('.program summary').click();
  const code = edit(await page.locator('.program .code').innerText());
  await mkdir(folder, { recursive: true });
  const file = `${folder}${programs++}.mjs`;
  await writeFile(file, code);
  const { stdout } = await promisify(execFile)(process.execPath, [...process.execArgv, file]);
  return stdout;
}

const numbersIn = (text: string): number[] =>
  [...text.matchAll(/-?\d+(\.\d+)?(e-?\d+)?/g)].map(([found]) => Number(found));

function expectNear(found: number[], expected: number[], within = shownWithin) {
  expect(found).toHaveLength(expected.length);
  for (const [i, entry] of found.entries()) expect(Math.abs(entry - expected[i]!)).toBeLessThan(within);
}

describe('the code of a page computes what the page shows', () => {
  it.each([
    '',
    '?causal=1&scale=0.5',
    '?order=2,0,3,1&padding=1',
    '?positions=add&norm=1&dropout=0.3',
    '?positions=concat&width=3&window=1',
    `?${new URLSearchParams({ words: 'it\'s|"two"', x: '1,0;0,2', sources: 'a|b|c', y: '1;2;3' })}`,
  ])('By hand %s', async (settings) => {
    const { page } = await site.open(`#compute?all=1${settings.replace('?', '&')}`);
    await page.waitForSelector('#output td');
    const weights = (await shownMatrix(page, 'weights')).flat();
    const output = (await shownMatrix(page, 'output')).flat();
    expectNear(numbersIn(await printed(page)), [...weights, ...output]);
  });

  it.each(['?heads=2&seed=498', '?heads=3&width=1&dropout=0.5&draw=7&norm=1'])(
    'By hand, heads: %s',
    async (settings) => {
      const { page } = await site.open(`#compute?all=1${settings.replace('?', '&')}`);
      await page.waitForSelector('#mixed td');
      const mixed = (await shownMatrix(page, 'mixed')).flat();
      expectNear(numbersIn(await printed(page)).slice(-mixed.length), mixed);
    },
  );

  it('Inside', async () => {
    const texts = ['It’s a “test”.', "One more: don't \\n break."];
    const query = new URLSearchParams({ text: texts.join('\n'), layer: '1', head: '1' });
    const { page } = await site.open(`#inside?${query}`);
    await page.locator('.queries .token').first().waitFor();
    const tokens = await page.locator('.queries .token').allInnerTexts();
    const shares = await page
      .locator('.queries .token')
      .evaluateAll((buttons) => buttons.map((button) => /(\d+) %/.exec(button.getAttribute('aria-label')!)![1]));
    const output = await printed(page);
    for (const token of tokens) expect(output).toContain(token.replaceAll("'", '').slice(0, 12));
    const weights = numbersIn(output.slice(output.lastIndexOf("'"))).slice(-(tokens.length ** 2));
    tokens.forEach((_, i) => {
      const row = weights.slice(i * tokens.length, (i + 1) * tokens.length);
      expect(Math.abs(Math.max(...row) - Number(shares[i]) / 100)).toBeLessThan(shownWithin);
    });
  });

  it('the first page', async () => {
    const { page } = await site.open('#see');
    await page.locator('.ways button:enabled').waitFor();
    const tokens = page.locator('.side').first().locator('.weighted');
    const shares = (await tokens.locator('small').allInnerTexts()).map((text) => Number.parseInt(text, 10));
    const weights = numbersIn((await printed(page)).split("]'").at(-1)!).slice(-shares.length);
    shares.forEach((share, key) => expect(Math.abs(100 * weights[key]! - share)).toBeLessThan(1));
  });

  it('Meaning, with a model of the reader’s own', async () => {
    const url = new URL('/model/', site.url).href;
    const { page } = await site.open(`#meaning?model=own&${new URLSearchParams({ url, text: 'A fox.\nA dog.' })}`);
    await page.getByRole('button', { name: 'Open', exact: true }).click();
    await page.waitForSelector('#cosines td');
    const cosines = (await shownMatrix(page, 'cosines')).flat();
    expectNear(numbersIn(await printed(page)).slice(0, 4), cosines);
  });

  it('Teach it your labels', async () => {
    const { page } = await site.open('#teach');
    await page.locator('.probabilities li').first().waitFor();
    const shares = Object.fromEntries(
      await page
        .locator('.probabilities li')
        .evaluateAll((items) =>
          items.map((item) => [
            item.children[0]!.textContent!.trim(),
            Number.parseInt(item.children[2]!.textContent!, 10),
          ]),
        ),
    );
    const output = await printed(page);
    const found = [...output.matchAll(/label: '(\w+)', score: ([\d.e-]+)/g)];
    expect(found).toHaveLength(Object.keys(shares).length);
    for (const [, label, score] of found) expect(Math.abs(100 * Number(score) - shares[label!]!)).toBeLessThan(1);
  });

  it('Teach it your labels, shared as a link', async () => {
    const { page } = await site.open(`#teach?${sharedLabels}`);
    await page.locator('.probabilities li').first().waitFor();
    const shares = numbersIn((await page.locator('.probabilities .score').allInnerTexts()).join(' '));
    const found = [...(await printed(page)).matchAll(/label: .(it’s up|down).*score: ([\d.e-]+)/g)];
    expectNear(
      found.map(([, , score]) => 100 * Number(score)),
      shares,
      1,
    );
  });

  it.each([
    '&task=reverse',
    '&preset=&task=copy&heads=4&positions=0&scale=0',
    '&preset=&task=sort&norm=0&dropout=0.1&width=64&heads=1&seed=7',
    '&preset=&task=repeated&rate=0.01',
  ])('Watch attention learn %s', async (settings) => {
    const { page } = await site.open(`#learn?step=30&build=simd128${settings}`);
    const figures = page.locator('.figures strong');
    await expect.poll(async () => (await figures.allInnerTexts())[0]).toBe('30');
    await page.getByRole('button', { name: 'Go on' }).waitFor();
    const [, accuracy, loss] = (await figures.allInnerTexts()).map((text) => numbersIn(text)[0]!);
    const output = await printed(page, (code) => code.replace('load()', "load({ build: 'simd128' })"));
    const [foundLoss, foundAccuracy, ...answers] = numbersIn(output);
    expectNear([foundLoss!, foundAccuracy!], [loss!, accuracy!], 0.0501);
    expect(Math.abs(foundLoss! - loss!)).toBeLessThan(0.000501);
    const shown = await page.locator('.sequence tr').nth(2).locator('td').allInnerTexts();
    if (settings.includes('reverse')) expect(answers).toEqual(shown.map((text) => numbersIn(text)[0]));
  });

  it('Lens, with a head switched off', async () => {
    const { page } = await site.open('#inside?part=lens&off=1.6');
    const result = page.locator('#lens-heads ~ .lens-result');
    await result.getByText('with all heads').waitFor();
    await page.locator('.lens-table tbody td').first().waitFor();
    const [edited] = numbersIn(await result.innerText());
    const grid = (await page.locator('.lens-table tbody td').allInnerTexts()).map(Number);
    const found = numbersIn(await printed(page));
    expectNear([found[0]!, ...found.slice(-grid.length)], [edited!, ...grid]);
  });

  it.each(['&off=1.0,1.1,9.9', '&heads=1&width=64&preset=&off=0.0', '&preset=&task=copy&heads=4&off='])(
    'Lens, with the model of “Watch it learn” %s',
    async (settings) => {
      const { page } = await site.open(`#learn?step=40&build=simd128${settings.replace(/&off.*/, '')}`);
      await page.getByRole('button', { name: 'Go on' }).waitFor();
      await page.evaluate(
        (off) => {
          location.hash = `#lens?build=simd128&model=trained${off}`;
        },
        settings.match(/&off.*/)![0],
      );
      const section = page.locator('section[aria-labelledby="lens-trained"]');
      await section.getByText('After step 40').waitFor();
      const anyOff = !settings.endsWith('=');
      if (anyOff) await section.getByText('with all heads').waitFor();
      const shown = numbersIn(
        (await section.locator('.lens-result').innerText()).replace(/After step 40|to \d+ held-out/g, ''),
      );
      const most = Number(/at most ([\d.]+) %/.exec(await section.innerText())![1]);
      const answers = await section.locator('.sequence tr').nth(2).locator('td').allInnerTexts();
      const output = await printed(page, (code) => code.replace('load()', "load({ build: 'simd128' })"));
      const [without, all] = output.split('\n').map((line) => numbersIn(line)[0]!);
      expectNear(anyOff ? [without!, all!] : [without!], shown, 0.0501);
      const alone = [...output.matchAll(/without .* ([\d.]+) %/g)].map(([, accuracy]) => Number(accuracy));
      expect(alone).toHaveLength(/heads=(\d)/.test(settings) ? 2 * Number(/heads=(\d)/.exec(settings)![1]) : 4);
      expect(Math.abs(Math.max(...alone.map((accuracy) => Math.abs(accuracy - all!))) - most)).toBeLessThan(0.0501);
      const printedAnswers = numbersIn(output.split('\n').find((line) => line.startsWith('answers'))!);
      answers.forEach((text, i) => {
        if (/\d/.test(text)) expect(printedAnswers[i]).toBe(numbersIn(text)[0]);
      });
    },
  );

  it('Lens, with a model of the reader’s own: words and labels', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'heed-'));
    for (const [name, content] of Object.entries(tinyModel())) await writeFile(join(folder, name), content);
    const { page } = await site.open('#meaning?model=own');
    await page.locator('input[type=file]').setInputFiles(folder);
    await page.getByRole('heading', { name: 'Contents' }).waitFor();
    const [first, second] = ['the quick [MASK] fox', 'a quick [MASK] fox'];
    for (const measure of ['word', 'label']) {
      await page.evaluate(
        (hash) => {
          location.hash = hash;
        },
        `#inside?part=lens&${new URLSearchParams({ model: 'own', measure, first, second, off: '1.1' })}`,
      );
      const rows = page.locator('#lens-candidates tbody tr');
      const grid = page.locator('.lens-table').first().locator('tbody td');
      await page.getByText(measure === 'word' ? 'the masked word' : 'the label', { exact: true }).click();
      await expect.poll(async () => (await rows.allInnerTexts()).length).toBeGreaterThan(1);
      await grid.first().waitFor();
      await drawn(page);
      const candidates = (await rows.allInnerTexts()).map((row) => row.split('\t'));
      const cells = (await grid.allInnerTexts()).map(Number);
      const output = await printed(page, (code) => code.replace("'./my-model/'", JSON.stringify(folder)));
      // The words or labels with their scores, best first, then the grid.
      const found = [...output.matchAll(/'(.*)'(?:, score:|,)\s+([\d.e-]+)/g)];
      expectNear(
        found.map(([, , score]) => 100 * Number(score)),
        candidates.map(([, share]) => Number.parseFloat(share!)),
        0.0501,
      );
      // The page names special tokens by their ids; they have no text.
      for (const [i, [name]] of candidates.entries()) if (!name!.startsWith('[')) expect(found[i]![1]).toBe(name);
      expectNear(numbersIn(output).slice(-cells.length), cells);
    }
  });

  it('Speed: encodes the longest texts that the page measures', async () => {
    const { page, context } = await visit(site, '', { serviceWorkers: 'block' });
    await giveOwnClock(context);
    await page.goto(`${site.url}?#speed`);
    await page.getByRole('button', { name: 'Measure' }).click();
    await page.getByRole('button', { name: 'Copy as text' }).waitFor();
    const lengths = await page.locator('#length-table tbody th').allInnerTexts();
    // A clock that advances by 10 ms with each call that is measured.
    const clock = 'let now = 0;\nperformance.now = () => now;\n';
    const call = 'await model.encode({ inputIds });\nconsole.log';
    const output = await printed(page, (code) => {
      expect(code).toContain(call);
      const shape = 'console.log((await model.encode({ inputIds })).lastHiddenState.shape);\n';
      return `${clock}${code}`
        .replace(call, `{ await model.encode({ inputIds }); now += 10; }\nconsole.log`)
        .replace('const calls', `${shape}const calls`);
    });
    const [texts, length, , rate] = numbersIn(output);
    expect([texts, length]).toEqual([1, Number(lengths.at(-1))]);
    expect(rate).toBe((1000 / 10) * length!);
    await context.close();
  });

  it('the footer leads to the package', async () => {
    const { page } = await site.open('#compute?all=1');
    const footer = page.locator('footer');
    expect(await footer.innerText()).toContain('npm install heed');
    for (const name of ['Repository', 'Documentation', 'Course', 'Licence: Apache 2.0'])
      expect(await footer.getByRole('link', { name }).getAttribute('href')).toMatch(
        /^https:\/\/github\.com\/heed\/heed/,
      );
  });
});
