/** The page by keyboard, beside what faults.ts tests in every engine. */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openSite, type Site } from './site';

let site: Site;
beforeAll(async () => {
  site = await openSite();
});
afterAll(() => site?.close());

describe('by keyboard', () => {
  it('steppers change what they name', async () => {
    const { page } = await site.open('#compute?all=1');
    const width = page.locator('.stepper', { hasText: 'Head width' }).locator('output');
    await page.getByRole('button', { name: 'Increase head width' }).click();
    await expect.poll(() => width.innerText()).toBe('3');
    await page.getByRole('button', { name: 'Increase heads' }).click();
    await page.waitForSelector('#mixed');
    await page.getByRole('button', { name: 'Decrease head width' }).click();
    await expect.poll(() => width.innerText()).toBe('2');
  });

  it('choosing the folder of a model keeps the focus', async () => {
    const { page } = await site.open('#meaning?model=own');
    const choose = page.locator('input[type=file]').first();
    await choose.focus();
    await choose.setInputFiles(fileURLToPath(new URL('../../web/model', import.meta.url)));
    await page.locator('.facts-table').nth(1).waitFor();
    expect(await page.evaluate(() => (document.activeElement as HTMLInputElement).type)).toBe('file');
  });
});
