/** The page “Lens” in Chromium: its numbers are those of the library in Node, and heads switch with mouse and keyboard. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load, type PretrainedModel } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { candidatesWithout, type Grid, patched, wordsByLayer } from '../../demo/src/pages/inside/lens/compute';
import { tinyModel } from '../web/models/tiny';
import { openSite, type Site } from './site';

let site: Site;
let model: PretrainedModel;
let tiny: PretrainedModel;
let folder: string;
beforeAll(async () => {
  site = await openSite();
  const heed = await load();
  model = await heed.fromPretrained(undefined, { dtype: 'fp32' });
  tiny = await heed.fromPretrained(tinyModel());
  folder = await mkdtemp(join(tmpdir(), 'heed-'));
  for (const [name, content] of Object.entries(tinyModel())) await writeFile(join(folder, name), content);
});
afterAll(async () => {
  model?.dispose();
  tiny?.dispose();
  await site?.close();
});

const texts: [string, string] = ['The glass is full.', 'The glass is empty.'];
const similarityWithout = async (off: string[]) => (await candidatesWithout(model, 'similarity', texts, off))[0]!.score;
const status = (page: Page) => page.locator('#lens-heads ~ .lens-result');
const shown = (similarity: number) => `sentences: ${similarity.toFixed(4)}`;
const head = (page: Page, name: string) => page.getByRole('button', { name: `Switch off ${name}`, exact: true });

it('a click on a head switches it off, and the similarity follows', async () => {
  const { page, complaints } = await site.open('#inside?part=lens');
  const plain = await similarityWithout([]);
  await status(page).getByText(shown(plain)).waitFor();
  await head(page, 'layer 2, head 7').click();
  const edited = await similarityWithout(['1.6']);
  await status(page)
    .getByText(`${shown(edited)}, with all heads ${plain.toFixed(4)}`)
    .waitFor();
  expect(await head(page, 'layer 2, head 7').getAttribute('aria-pressed')).toBe('true');
  await expect.poll(() => page.url()).toContain('off=1.6');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowLeft');
  await page.keyboard.press('Space');
  expect(await head(page, 'layer 1, head 6').getAttribute('aria-pressed')).toBe('true');
  await page.getByRole('button', { name: 'Switch all on' }).click();
  await status(page).getByText(shown(plain)).waitFor();
  expect(complaints).toEqual([]);
});

it('the patch grid has the numbers of the library', async () => {
  for (const over of ['positions', 'heads', 'blocks'] as const) {
    const { page } = await site.open(`#inside?part=lens&over=${over}`);
    const { values, columns } = (await patched(model, 'similarity', texts, over)) as Grid;
    await page.locator('.lens-table td').nth(1).waitFor();
    const cells = await page.locator('.lens-table tbody td').allInnerTexts();
    expect(cells).toEqual(values.flat().map((value) => value.toFixed(2)));
    expect(await page.locator('.lens-table thead th').allInnerTexts()).toEqual(columns);
  }
  const { page } = await site.open(`#inside?part=lens&${new URLSearchParams({ second: 'A film.' })}`);
  await page.getByText('these have different numbers').waitFor();
});

it('the slider steers', async () => {
  const { page } = await site.open(
    `#inside?part=lens&${new URLSearchParams({ first: 'We talked about the weather.' })}`,
  );
  const result = page.locator('#lens-steering ~ .lens-result');
  await result.getByText('to “hot summer sun”').waitFor();
  const before = await result.innerText();
  await page.getByLabel('Strength').fill('1');
  await expect.poll(() => result.innerText()).not.toBe(before);
  await expect.poll(() => page.url()).toContain('strength=1');
});

it('garbage in a link and empty sentences are harmless', async () => {
  const { page, complaints } = await site.open('#inside?part=lens&off=9.9,x,1&over=all&strength=99');
  await page.locator('.lens-table td').nth(1).waitFor();
  await page.getByRole('textbox', { name: 'First sentence' }).fill('');
  await page.getByRole('textbox', { name: 'First sentence' }).fill('A fox.');
  await page.getByText('these have different numbers').waitFor();
  expect(await page.getByRole('alert').count()).toBe(0);
  expect(await page.locator('.lens-cell[tabindex="0"]').count()).toBe(1); // heads can be reached with the keyboard
  expect(await page.getByRole('button', { name: 'Switch all on' }).count()).toBe(0);
  expect(complaints).toEqual([]);
});

it('a model of the reader’s own: the masked word, the label, and the words of each layer', async () => {
  const { page, complaints } = await site.open('#meaning?model=own');
  await page.waitForSelector('.drop');
  await page.locator('input[type=file]').setInputFiles(folder);
  await page.getByRole('heading', { name: 'Contents' }).waitFor();
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Inside' }).click();
  await page.getByText('lens', { exact: true }).click();
  await page.getByText('the masked word').click();
  await page.getByText('Write [MASK] once in the first sentence').waitFor();
  const own: [string, string] = ['the quick [MASK] fox', 'a quick [MASK] fox'];
  await page.getByRole('textbox', { name: 'First sentence' }).fill(own[0]);
  await page.getByRole('textbox', { name: 'Second sentence' }).fill(own[1]);
  const candidatesShown = () => page.locator('#lens-candidates tbody tr').allInnerTexts();
  const rowsOf = async (measure: 'word' | 'label', off: string[]) => {
    const plain = await candidatesWithout(tiny, measure, own, []);
    const percent = (score: number) => `${(100 * score).toFixed(1)} %`;
    return (await candidatesWithout(tiny, measure, own, off)).map(({ id, name, score }) => {
      const before = plain.find((each) => each.id === id);
      return [name, percent(score), before ? percent(before.score) : 'less'].join('\t');
    });
  };
  await expect.poll(candidatesShown).toEqual(await rowsOf('word', []));
  await head(page, 'layer 2, head 2').click();
  await expect.poll(candidatesShown).toEqual(await rowsOf('word', ['1.1']));
  const { layers } = await wordsByLayer(tiny, own[0]);
  const wordCells = page.getByRole('region', { name: 'Logit lens' }).locator('tbody td');
  await expect.poll(() => wordCells.allInnerTexts()).toEqual(layers.flat().map(({ name }) => name));
  await page.getByText('the label', { exact: true }).click();
  await expect.poll(candidatesShown).toEqual(await rowsOf('label', ['1.1']));
  expect(await page.getByRole('alert').count()).toBe(0);
  expect(complaints).toEqual([]);
});

it('the model trained on “Watch it learn”: a head off costs accuracy', async () => {
  const { page, complaints } = await site.open('#learn?step=150');
  await page.locator('.facts, .run').first().waitFor();
  await page.getByRole('button', { name: 'Go on' }).waitFor(); // trained to the step that the link names
  await page.getByRole('navigation', { name: 'Pages' }).getByRole('link', { name: 'Inside' }).click();
  await page.getByText('trained by you').click();
  const result = page.locator('#lens-trained ~ .lens-result');
  await result.getByText('After step 150').waitFor();
  const accuracy = async () => Number(/([\d.]+) %/.exec(await result.innerText())![1]);
  const whole = await accuracy();
  expect(whole).toBeGreaterThan(95);
  for (const name of ['layer 2, head 1', 'layer 2, head 2']) await head(page, name).click();
  await result.getByText(`with all heads ${whole.toFixed(1)} %`).waitFor();
  await expect.poll(accuracy).toBeLessThan(50);
  expect(await page.locator('.sequence td.wrong').count()).toBeGreaterThan(0);
  expect(complaints).toEqual([]);
});
