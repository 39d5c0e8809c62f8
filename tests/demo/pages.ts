/** Links to the pages of the demo, for the tests that visit all of them. */
import type { Page } from 'playwright-core';
import { presets } from '../../demo/src/pages/hand/presets';
import { drawn, sharedLabels } from './site';

/** Each page with the elements that appear last. */
export const pages: Record<string, string[]> = {
  '#start': ['.shares li', '.ways button:enabled'],
  '#hand?tour=3': ['.tour h1', '#mixed td'],
  '#hand?positions=add&heads=2': ['#mixed td', '.plots svg'],
  '#text': ['.words .word', '#shipped-cosines td', '.plot svg', '.passages li'],
  '#text?view=map': ['.map-area canvas', '.plot svg'],
  '#model': ['.drop'],
  '#speed': ['.plot svg'],
  '#lens': ['.lens-table td', '.lens-cell[title]'],
  '#learning': ['.sequence td', '.gradients td', '.plot svg'],
  '#learning?part=labels': ['.mattered li', '.plot svg'],
  [`#learning?${sharedLabels}`]: ['.probabilities li'],
};

/** Goes to a page by a link, without loading the document again, and waits until it is complete. */
export async function enter(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => {
    location.hash = to;
  }, hash);
  await page
    .locator('.status-line')
    .getByText(/Loaded:|Saved:/)
    .waitFor();
  for (const part of pages[hash]!) await page.locator(part).first().waitFor();
  await page.waitForFunction(
    () => !document.querySelector('.waiting, .plot:empty'), // a plot is empty until it has been drawn
  );
  await drawn(page);
}

/** “By hand” with every example, and with settings that need much space. */
export const hands = [
  ...presets.map(({ id }) => `#hand?preset=${id}`),
  '#hand?heads=4&width=8',
  '#hand?heads=3&width=5&scale=0.35&norm=1&positions=concat&dropout=0.4',
  '#hand?words=donaudampfschifffahrtsgesellschaft|antidisestablishmentarianism|a|b',
  '#hand?words=one|two|three|four|five|six|seven|eight&causal=1&positions=add',
];

/** The example that a link of `hands` stands for: it is chosen with the button of this name, because the link alone does not. */
export const exampleOf = (hash: string): string | undefined =>
  presets.find(({ id }) => hash === `#hand?preset=${id}`)?.name;

/** Links to “By hand” with values that cannot be read. */
export const unreadable = [
  'heads=99&width=x&x=1,2;3&scale=1e9&order=7,7&mask=&wq=1;2&at=%%%',
  'x=;;;',
  'x=',
  'words=',
  'words=|||',
  'words=%20',
  'wq=;&wk=,&wv=;;',
  'at=query:99,key:99',
  'at=__proto__:1',
];
