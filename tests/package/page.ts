// Opens a built app in Chromium and reads the result of its smoke.js.
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { expect } from 'vitest';
import { install, runNode } from './installed.js';

export interface Smoke {
  build: string;
  output: number[][];
  vectors: number[][];
  workerVectors?: number[][];
  error: string;
}

/** The result in Node, with which all other environments must agree. */
export async function expectedResult(): Promise<Smoke> {
  const folder = install('expected', 'plain');
  const script = `import * as heed from 'heed'; import { smoke } from './smoke.js'; console.log(JSON.stringify(await smoke(heed, { worker: false })));`;
  return JSON.parse(await runNode(['--input-type=module', '--no-warnings', '-e', script], { cwd: folder }));
}

const flat = (rows: number[][]) => rows.flat();

/** Compares up to fp32 rounding, because engines may fuse a multiplication and an addition. */
function expectClose(actual: number[][], expected: number[][]) {
  expect(flat(actual).length).toBe(flat(expected).length);
  for (const [i, x] of flat(actual).entries()) {
    expect(Math.abs(x - flat(expected)[i])).toBeLessThanOrEqual(1e-5 + 1e-4 * Math.abs(flat(expected)[i]));
  }
}

export function checkResult(answer: { result?: Smoke; failure?: string }, expected: Smoke, worker: boolean) {
  if (answer.failure) throw new Error(answer.failure);
  const result = answer.result!;
  expect(result.build).toMatch(/^(relaxed-simd|simd128)$/);
  expect(result.error).toBe(expected.error);
  expectClose(result.output, expected.output);
  expectClose(result.vectors, expected.vectors);
  if (worker) expectClose(result.workerVectors!, expected.vectors);
}

/** Opens `url` and checks the app's result. */
export async function checkPage(
  browser: Browser | BrowserContext,
  url: string,
  expected: Smoke,
  { worker = true } = {},
) {
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
    const answer = await page.evaluate(() => (globalThis as unknown as { smokeResult: Promise<object> }).smokeResult);
    checkResult(answer, expected, worker);
  } catch (error) {
    if (said.length > 0)
      throw new Error(`${(error as Error).message}\nthe page said: ${said.join('\n')}`, { cause: error });
    throw error;
  } finally {
    await page.close();
  }
}
