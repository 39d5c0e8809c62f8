/** Links of the course's chapters show their examples in the demo. tests/tools/course.browser.test.ts opens slides, handouts and notebooks. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { chapters } from '../../tools/course.mjs';
import { openSite, type Site, shownMatrix } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

const all = chapters().filter(({ name }) => name !== 'index');
const chapter = (start: string) => all.find(({ name }) => name.startsWith(start))!;

it.each([
  ['02', 'weights', [0.4022, 0.0978, 0.4022, 0.0978]],
  ['04', 'weights', [0.4344, 0.0257, 0.4344, 0.1056]],
  ['06', 'weights', [1, 0, 0, 0]],
  ['07', 'weights', [0.0829, 0.8343, 0.0829]],
])('the link of chapter %s shows its example', async (start, name, row) => {
  const [, hash] = /heed\.github\.io\/heed\/(#compute[^)]*)/.exec(chapter(start).text)!;
  const { page } = await site.open(`${hash}&all=1`);
  await expect.poll(async () => (await shownMatrix(page, name)).length).toBeGreaterThan(0);
  const [first] = await shownMatrix(page, name);
  expect(first!.map((value, i) => Math.abs(value - row[i]!) < 0.006)).toEqual(row.map(() => true));
});
