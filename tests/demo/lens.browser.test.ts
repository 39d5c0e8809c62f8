/** The page “Lens” in Chromium: its numbers are those of the library in Node, and heads switch with mouse and keyboard. */
import { load, type PretrainedModel } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { patched, similarityWithout } from '../../demo/src/pages/lens/compute';
import { openSite, type Site } from './site';

let site: Site;
let model: PretrainedModel;
beforeAll(async () => {
  site = await openSite();
  model = await (await load()).fromPretrained();
});
afterAll(async () => {
  model?.dispose();
  await site?.close();
});

const texts: [string, string] = ['The film was not good.', 'The film was very good.'];
const status = (page: Page) => page.locator('#lens-heads ~ .lens-result');
const shown = (similarity: number) => `sentences: ${similarity.toFixed(4)}`;
const head = (page: Page, name: string) => page.getByRole('button', { name: `Switch off ${name}`, exact: true });

it('a click on a head switches it off, and the similarity follows', async () => {
  const { page, complaints } = await site.open('#lens');
  const plain = await similarityWithout(model, texts, []);
  await status(page).getByText(shown(plain)).waitFor();
  await head(page, 'layer 2, head 7').click();
  const edited = await similarityWithout(model, texts, ['1.6']);
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
    const { page } = await site.open(`#lens?over=${over}`);
    const { values, columns } = (await patched(model, texts, over))!;
    await page.locator('.lens-table td').nth(1).waitFor();
    const cells = await page.locator('.lens-table tbody td').allInnerTexts();
    expect(cells).toEqual(values.flat().map((value) => value.toFixed(2)));
    expect(await page.locator('.lens-table thead th').allInnerTexts()).toEqual(columns);
  }
  const { page } = await site.open(`#lens?${new URLSearchParams({ other: 'A film.' })}`);
  await page.getByText('these have different numbers').waitFor();
});

it('the slider steers', async () => {
  const { page } = await site.open(`#lens?${new URLSearchParams({ text: 'We talked about the weather.' })}`);
  const result = page.locator('#lens-steering ~ .lens-result');
  await result.getByText('to “hot summer sun”').waitFor();
  const before = await result.innerText();
  await page.getByLabel('Strength').fill('1');
  await expect.poll(() => result.innerText()).not.toBe(before);
  await expect.poll(() => page.url()).toContain('strength=1');
});

it('garbage in a link and empty sentences are harmless', async () => {
  const { page, complaints } = await site.open('#lens?off=9.9,x,1&over=all&strength=99');
  await page.locator('.lens-table td').nth(1).waitFor();
  await page.getByRole('textbox', { name: 'First sentence' }).fill('');
  await page.getByRole('textbox', { name: 'First sentence' }).fill('A fox.');
  await page.getByText('these have different numbers').waitFor();
  expect(await page.getByRole('alert').count()).toBe(0);
  expect(await page.locator('.lens-cell[tabindex="0"]').count()).toBe(1); // heads can be reached with the keyboard
  expect(await page.getByRole('button', { name: 'Switch all on' }).count()).toBe(0);
  expect(complaints).toEqual([]);
});
