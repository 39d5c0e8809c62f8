/** The page “Watch it learn”: compares what it shows with the trainer in Node, which learning.test.ts tests. */
import { load, type TrainingHeed } from 'heed/train';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { symbol } from '../../demo/src/engine/learning/tasks';
import { Trainer } from '../../demo/src/engine/learning/trainer';
import { presets } from '../../demo/src/pages/learning/tasks/presets';
import { initial } from './learning-settings';
import { openSite, type Site, visit } from './site';

let site: Site;
let heed: TrainingHeed;
beforeAll(async () => {
  // One build on both sides, so that results have the same bits.
  [site, heed] = await Promise.all([openSite(), load({ build: 'simd128' })]);
});
afterAll(async () => {
  heed?.dispose();
  await site?.close();
});

const figure = (page: Page, name: string) =>
  page.locator('.figures > div', { has: page.getByText(name, { exact: true }) }).locator('strong');
const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
const shownStep = async (page: Page) => Number((await figure(page, 'Step').innerText()).replace(',', ''));

async function openTasks(settings = '') {
  const visited = await site.open(`#learn?build=simd128${settings}`);
  // A link to a step trains at once, so that the button has another name.
  await visited.page.getByRole('button', { name: /^(Train|Pause|Go on)$/ }).waitFor();
  return visited;
}

describe('watch attention learn', () => {
  it('shows the same model as the trainer in Node, step by step', async () => {
    const { page, complaints } = await openTasks('&task=copy&seed=3');
    const trainer = new Trainer(heed, { ...initial, task: 'copy', seed: 3 });
    for (let step = 0; step <= 3; step++) {
      if (step > 0) {
        await button(page, 'One step').click();
        trainer.train();
      }
      await expect.poll(() => shownStep(page)).toBe(step);
      const { accuracy, loss } = trainer.measure();
      const { answers, sharpness, weights } = trainer.snapshot();
      await expect.poll(() => figure(page, 'Accuracy').innerText()).toBe(`${(100 * accuracy).toFixed(1)} %`);
      expect(await figure(page, 'Loss').innerText()).toBe(loss.toFixed(3));
      // Not the mean over the heads, in which the one that has learned the task would be lost.
      const shares = sharpness.flat().map((share) => `${(100 * share).toFixed(0)} %`);
      const sharpest = sharpness.flat().indexOf(Math.max(...sharpness.flat()));
      expect(await figure(page, 'Largest weight').innerText()).toBe(shares[sharpest]);
      expect(await page.locator('.head small').allInnerTexts()).toEqual(shares);
      const shown = await page.locator('.sequence tr').nth(2).locator('td').allInnerTexts();
      expect(shown.map((text) => text.charAt(0))).toEqual(
        answers.map((id, i) => (trainer.shown.labels[i]! >= 0 ? symbol(id) : '')),
      );
      const alphas = await page
        .locator('.head canvas')
        .first()
        .evaluate((canvas: HTMLCanvasElement) => {
          const { data } = canvas.getContext('2d')!.getImageData(0, 0, canvas.width, canvas.height);
          return Array.from({ length: data.length / 4 }, (_, i) => data[4 * i + 3]! / 255);
        });
      for (const [i, alpha] of alphas.entries())
        expect(Math.abs(alpha - weights[0]![0]![i]! ** 0.6)).toBeLessThan(0.01);
    }
    trainer.dispose();
    expect(complaints).toEqual([]);
  });

  it('learns to reverse, by keyboard alone, and goes back', async () => {
    const { page, complaints } = await openTasks();
    await button(page, 'Train').focus();
    await page.keyboard.press('Enter');
    await button(page, 'Pause').waitFor();
    await expect.poll(async () => Number.parseFloat(await figure(page, 'Accuracy').innerText())).toBeGreaterThan(99);
    await page.keyboard.press('Enter'); // the same button pauses
    await button(page, 'Go on').waitFor();
    const end = await shownStep(page);
    const answers = await page.locator('.sequence td.right').count();
    expect(answers).toBe(10);
    expect(await page.locator('.gradients td.number').first().innerText()).toMatch(/\d/);

    const slider = page.getByLabel('Go back to step');
    await slider.focus();
    await page.keyboard.press('Home');
    await expect.poll(() => shownStep(page)).toBe(0);
    expect(await page.locator('.sequence td.right').count()).toBeLessThan(10);
    expect(await page.locator('.gradients td.number').first().innerText()).toBe('–');
    await page.keyboard.press('End');
    await expect.poll(() => shownStep(page)).toBeGreaterThan(0);
    expect(await shownStep(page)).toBeLessThanOrEqual(end);
    expect(complaints).toEqual([]);
  });

  it('starts over when a setting changes, and keeps the settings in the link', async () => {
    const { page } = await openTasks();
    await button(page, 'One step').click();
    await expect.poll(() => shownStep(page)).toBe(1);
    await page.getByLabel('Positions').click();
    await expect.poll(() => shownStep(page)).toBe(0);
    await expect.poll(() => page.url()).toContain('positions=0');
    await button(page, 'Without 1/√d').click();
    await expect.poll(() => page.url()).toContain('preset=scale');
    expect(page.url()).toMatch(/heads=1.*width=128.*scale=0/);
    expect(page.url()).not.toContain('positions');
    await expect.poll(() => page.locator('.head').count()).toBe(2); // a head in each layer
    expect(await page.locator('.hint').innerText()).toContain('saturates');
    await button(page, 'Start over').waitFor();
  });

  it('pauses when the reader goes to another page, and goes on from there', async () => {
    const { page } = await openTasks();
    await button(page, 'Train').click();
    await expect.poll(() => shownStep(page)).toBeGreaterThan(1);
    await page.getByRole('link', { name: 'Compute' }).click();
    await page.getByRole('heading', { name: 'Compute' }).waitFor();
    await page.getByRole('link', { name: 'Watch it learn' }).click();
    await button(page, 'Go on').waitFor();
    expect(await shownStep(page)).toBeGreaterThan(1);
  });

  it('draws every step for those who do not prefer reduced motion', async () => {
    const { page, context } = await visit(site, '#learn', {
      reducedMotion: 'no-preference',
      serviceWorkers: 'block',
    });
    await page.getByLabel('Draw every step').waitFor();
    const steps = page.evaluate(
      () =>
        new Promise<string[]>((resolve) => {
          const figure = document.querySelector('.figures strong')!;
          const seen: string[] = [];
          new MutationObserver(() => {
            if (figure.textContent !== seen.at(-1)) seen.push(figure.textContent!);
            if (seen.length === 4) resolve(seen);
          }).observe(figure, { characterData: true, subtree: true, childList: true });
        }),
    );
    await button(page, 'Train').click();
    expect(await steps).toEqual(['1', '2', '3', '4']);
    await context.close();
  });

  it('explains that the worker cannot start, and tries again', async () => {
    const { page, context } = await visit(site, '', { serviceWorkers: 'block' });
    await page.route(/heed-train.*\.wasm$/, (route) => route.abort());
    await page.getByRole('link', { name: 'Watch it learn' }).click();
    await page.getByRole('alert').getByText('Training could not start.').waitFor();
    await page.unroute(/heed-train.*\.wasm$/);
    await button(page, 'Try again').click();
    await button(page, 'Train').waitFor();
    await context.close();
  });
});

describe('on one screen', () => {
  it.each(presets.map(({ name }) => name))(
    '%s: controls, heat map and curves fit 1280 x 800 while training',
    async (name) => {
      const { page } = await openTasks();
      await page.setViewportSize({ width: 1280, height: 800 });
      await button(page, name).click();
      await button(page, 'Train').click();
      await expect.poll(() => shownStep(page)).toBeGreaterThan(5);
      const boxes = await page.evaluate(() =>
        [
          '.run',
          '.settings section:last-of-type',
          '.large .head-grid',
          '.map-area',
          '.sequence',
          '.curves .plot svg',
        ].flatMap((selector) =>
          [...document.querySelectorAll(selector)].map((element) => {
            const { left, top, right, bottom } = element.getBoundingClientRect();
            return { selector, left, top, right, bottom };
          }),
        ),
      );
      expect(boxes).toHaveLength(7);
      for (const { selector, left, top, right, bottom } of boxes) {
        expect(Math.min(left, top), selector).toBeGreaterThanOrEqual(0);
        expect(right, selector).toBeLessThanOrEqual(1280);
        expect(bottom, selector).toBeLessThanOrEqual(800);
      }
      const map = boxes.find(({ selector }) => selector === '.map-area')!;
      expect(map.bottom - map.top).toBeGreaterThan(250); // large
      await button(page, 'Pause').waitFor(); // it still trains
      await page.setViewportSize({ width: 1280, height: 900 });
    },
  );

  it('reverses ten digits that one types', async () => {
    const { page } = await openTasks('&step=160');
    await button(page, 'Go on').waitFor();
    await expect.poll(() => shownStep(page)).toBe(160);
    const field = page.getByLabel('Your own ten digits');
    await field.fill('31415');
    await page.getByText('5 more digits.').waitFor();
    await field.fill('3 1 4 1 5 9 2 6 5 3');
    await page.getByText('The model reads your digits.').waitFor();
    const cells = (row: number) => page.locator('.sequence tr').nth(row).locator('td').allInnerTexts();
    await expect.poll(async () => (await cells(0)).join('')).toBe('3141592653');
    expect((await cells(2)).join('')).toBe('3562951413');
    await page.getByText('10 of 10 answers right').waitFor();
    await expect.poll(() => page.url()).toContain('digits=3+1+4');
    await field.fill('');
    await expect.poll(async () => (await cells(0)).join('')).not.toBe('3141592653');
  });

  it('copies a link at this step, which trains to the same numbers', async () => {
    const { page, context } = await visit(site, '#learn?build=simd128&width=64&dropout=0.1', {
      serviceWorkers: 'block',
    });
    await context.grantPermissions(['clipboard-read', 'clipboard-write']);
    await button(page, 'Train').click();
    await expect.poll(() => shownStep(page)).toBeGreaterThan(12);
    await button(page, 'Pause').click();
    await button(page, 'Go on').waitFor();
    const paused = await shownStep(page);
    await button(page, 'One step').click(); // not only at saved steps
    await expect.poll(() => shownStep(page)).toBe(paused + 1);
    await button(page, 'Copy link at this step').click();
    await page.getByText('Copied').waitFor();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    const step = await shownStep(page);
    expect(link).toContain(`step=${step}`);
    const shown = (of: Page) => of.locator('.figures strong, .head small, .gradients td, .sequence td').allInnerTexts();
    const other = await context.newPage();
    await other.goto(link);
    await button(other, 'Go on').waitFor();
    await expect.poll(() => shown(other)).toEqual(await shown(page));
    // Another setting, or more training, is no longer at that step.
    await button(other, 'One step').click();
    await expect.poll(() => other.url()).not.toContain('step=');
    await context.close();
  });
});

describe('a reload', () => {
  it('trains to the step that was shown, with the same numbers', async () => {
    const { page, context } = await visit(site, '#learn?build=simd128&heads=1', { serviceWorkers: 'block' });
    await button(page, 'Train').click();
    await expect.poll(() => shownStep(page)).toBeGreaterThan(12);
    await button(page, 'Pause').click();
    await button(page, 'Go on').waitFor();
    const step = await shownStep(page);
    // Accuracy and loss are measured now and then, so they may be those of an earlier step.
    const shown = () => page.locator('.head small, .sequence td').allInnerTexts();
    const before = await shown();
    await page.reload();
    await button(page, 'Go on').waitFor();
    await expect.poll(() => shownStep(page)).toBe(step);
    await expect.poll(shown).toEqual(before);
    // A link without a step begins anew.
    await page.goto(`${site.url}?anew#learn?build=simd128&heads=1`);
    await button(page, 'Train').waitFor();
    expect(await shownStep(page)).toBe(0);
    await context.close();
  });
});

describe('a link to a step', () => {
  it('of a run that is not recorded says that the model is on the way there', async () => {
    const { page } = await site.open('#learn?build=simd128&heads=1&step=300');
    await page.getByText('The link is to step 300. No run with these settings is recorded').waitFor();
    await button(page, 'Go on').waitFor();
    expect(await shownStep(page)).toBe(300);
    expect(await page.locator('#on-the-way').count()).toBe(0);
  });

  it('of the recorded run shows that until the model has been trained', async () => {
    const { page } = await site.open('#learn?build=simd128&step=100');
    await page.getByText('Step 100 of a recorded run').waitFor();
    await button(page, 'Go on').waitFor();
    expect(await shownStep(page)).toBe(100);
  });
});
