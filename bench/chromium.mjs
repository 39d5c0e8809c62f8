/** Runs the suite in Chromium: serves the repository through Vite, opens page.html and waits for its result. */

import { createServer } from 'vite';
import { launchChromium } from '../tools/chromium.mjs';
import { sentences } from './sentences.mjs';

/**
 * @param {{ seconds: number, parts: string }} options
 * @returns {Promise<object>} the measurements of page.mjs
 */
export async function measureInChromium({ seconds, parts }) {
  const texts = JSON.stringify(await sentences());
  const server = await createServer({
    root: new URL('..', import.meta.url).pathname,
    configFile: false,
    logLevel: 'error',
    server: { port: 0, watch: null, hmr: false },
    optimizeDeps: { entries: ['bench/page.html'], include: [] },
    plugins: [
      {
        name: 'corpus',
        // Returns nothing: Vite would take a returned value for a hook.
        configureServer: ({ middlewares }) => {
          middlewares.use('/bench/sentences.json', (_, response) => response.end(texts));
        },
      },
    ],
  });
  await server.listen();
  const browser = await launchChromium();
  try {
    const page = await browser.newPage();
    page.on('console', (message) => message.text().startsWith('  ') && console.log(message.text()));
    page.on('pageerror', (error) => console.error(error));
    await page.goto(
      `http://localhost:${server.config.server.port || server.httpServer.address().port}/bench/page.html?seconds=${seconds}&parts=${parts}`,
    );
    await page.waitForFunction(() => window.result, undefined, { timeout: 1_800_000, polling: 1000 });
    const result = await page.evaluate(() => window.result);
    if (result.error) throw new Error(result.error);
    return result;
  } finally {
    await browser.close();
    await server.close();
  }
}
