// Opens a built app in Chromium and reads the result of its smoke.js.
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { expect, inject } from 'vitest';
import type { Smoke } from './installed.js';

const flat = (rows: number[][]) => rows.flat();

/** Compares up to fp32 rounding, because engines may fuse a multiplication and an addition. */
function expectClose(actual: number[][], expected: number[][]) {
  expect(flat(actual).length).toBe(flat(expected).length);
  for (const [i, x] of flat(actual).entries()) {
    expect(Math.abs(x - flat(expected)[i])).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(flat(expected)[i]));
  }
}

/** Compares an app's result with the one in Node. `worker`: the model in a worker's, too. */
export function checkResult(answer: { result?: Smoke; failure?: string }, worker: boolean) {
  const expected = inject('expected');
  if (answer.failure) throw new Error(answer.failure);
  const result = answer.result!;
  expect(result.build).toMatch(/^(relaxed-simd|simd128)$/);
  expect(result.error).toBe(expected.error);
  expectClose(result.output, expected.output);
  expectClose(result.vectors, expected.vectors);
  if (worker) expectClose(result.workerVectors!, expected.vectors);
}

/** Opens `url` and checks the app's result. */
export async function checkPage(browser: Browser | BrowserContext, url: string, { worker = true } = {}) {
  const page: Page = await browser.newPage();
  const said: string[] = [];
  page.on('console', (message) => said.push(message.text()));
  page.on('pageerror', (error) => said.push(String(error)));
  try {
    await page.goto(url);
    await page
      .waitForFunction(() => 'smokeResult' in globalThis, undefined, { timeout: 120_000 })
      .catch((error) => {
        throw new Error(`${url} left no result: ${said.join('\n')}`, { cause: error });
      });
    const answer = await page.evaluate(
      () => (globalThis as unknown as { smokeResult: Promise<{ result?: Smoke }> }).smokeResult,
    );
    checkResult(answer, worker);
    expect(answer.result!.build).toBe('relaxed-simd'); // which Chromium has
  } catch (error) {
    if (said.length > 0)
      throw new Error(`${(error as Error).message}\nthe page said: ${said.join('\n')}`, { cause: error });
    throw error;
  } finally {
    await page.close();
  }
}
