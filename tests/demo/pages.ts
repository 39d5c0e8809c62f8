/** Links to the pages of the demo, for the tests that visit all of them. */
import type { Page } from 'playwright-core';
import { presets } from '../../demo/src/pages/compute/presets';
import { drawn, sharedLabels } from './site';

/** Each page with the elements that appear last. */
export const pages: Record<string, string[]> = {
  '#see': ['.shares li', '.ways button:enabled'],
  '#compute': ['#average td'],
  '#compute?tour=3': ['.tour h1', '#mixed td'],
  '#compute?all=1&positions=add&heads=2': ['#mixed td', '.plots svg'],
  '#meaning': ['.words .word', '#cosines td', '.passages li'],
  '#inside': ['.lines line'],
  '#inside?view=map': ['.map-area canvas'],
  '#inside?part=states': ['.plot svg'],
  '#meaning?model=own': ['.drop'],
  '#speed': ['.plot svg'],
  '#inside?part=lens': ['.lens-table td', '.lens-cell[title]'],
  '#learn': ['.sequence td', '.gradients td', '.plot svg'],
  '#teach': ['.mattered:not([aria-hidden]) li', '.dots circle[transform]'],
  [`#teach?${sharedLabels}`]: ['.probabilities li'],
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

/** “Compute” with every example, and with settings that need much space. */
export const hands = [
  ...presets.map(({ id }) => `#compute?all=1&preset=${id}`),
  '#compute?all=1&heads=4&width=8',
  '#compute?all=1&heads=3&width=5&scale=0.35&norm=1&positions=concat&dropout=0.4',
  '#compute?all=1&words=donaudampfschifffahrtsgesellschaft|antidisestablishmentarianism|a|b',
  '#compute?all=1&words=one|two|three|four|five|six|seven|eight&causal=1&positions=add',
];

/** The example that a link of `hands` stands for: it is chosen with the button of this name, because the link alone does not. */
export const exampleOf = (hash: string): string | undefined =>
  presets.find(({ id }) => hash === `#compute?all=1&preset=${id}`)?.name;

/** Links to “Compute” with values that cannot be read. */
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
