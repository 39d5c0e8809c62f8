/** The speed room measures, and its text says the same as its tables. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openSite, type Site, visit } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite('speed');
});
afterAll(() => site?.close());

it('measures this machine and gives the figures as text', async () => {
  const { page, complaints, context } = await visit(site, '#speed', {
    permissions: ['clipboard-read', 'clipboard-write'],
  });
  await page.getByRole('button', { name: 'Measure' }).click();
  await page.getByRole('button', { name: 'Copy as text' }).click({ timeout: 60_000 });
  const text = await page.evaluate(() => navigator.clipboard.readText());
  const rows = await page
    .locator('#length-table tbody tr')
    .evaluateAll((found) => found.map((row) => [...row.children].map((cell) => cell.textContent!)));
  expect(rows.length).toBeGreaterThanOrEqual(4);
  for (const [length, perSecond, one] of rows) {
    expect(text).toMatch(new RegExp(`${length} +${perSecond}\n`));
    // Length, rate and time of one text are one measurement.
    const time = (1000 * Number(length)) / Number(perSecond!.replaceAll(',', ''));
    expect(Math.abs(time - parseFloat(one!))).toBeLessThan(Math.max(0.06, 0.51));
    expect(time).toBeGreaterThan(0.01);
  }
  // Longer texts take longer.
  const times = rows.map(([length, perSecond]) => Number(length) / Number(perSecond!.replaceAll(',', '')));
  expect(times.at(-1)).toBeGreaterThan(times[0]!);
  expect(text).toMatch(/ ms {2}attention/);
  expect(text).toMatch(/onnxruntime-web/);
  expect(complaints).toEqual([]);
  await context.close();
});
