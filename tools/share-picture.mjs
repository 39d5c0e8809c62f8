// The picture that sites show for links to the demo: its first page.
import * as fs from 'node:fs';
import { chromiumPath, launchChromium } from './chromium.mjs';
import { PlainError, say } from './console.mjs';

const kMostBytes = 150_000;

/** Runs in the page: whether its typeface, which comes after the model, has replaced those of the system. */
export const typefaceHasLoaded = () =>
  [...document.fonts].some(({ family, status }) => family.includes('Source Serif 4') && status === 'loaded');

/** Captures the first page of the built demo in `folder` as the PNG `file`. Without a browser, the file stays as it is. */
export async function captureShare(folder, file) {
  try {
    chromiumPath();
  } catch {
    say(`no browser to capture ${file}, which stays as it is`);
    return;
  }
  const vite = await import('vite');
  const preview = { port: 0, host: '127.0.0.1' };
  const server = await vite.preview({ configFile: false, preview, build: { outDir: folder }, logLevel: 'warn' });
  const browser = await launchChromium();
  try {
    // By its style, the page is as wide as on a desktop, and the picture has the size that sites expect.
    const viewport = { width: 1200, height: 630 };
    const page = await browser.newPage({ viewport, reducedMotion: 'reduce', colorScheme: 'light', bypassCSP: true });
    await page.goto(server.resolvedUrls.local[0]);
    await page.locator('.path b').first().waitFor();
    await page.waitForFunction(typefaceHasLoaded);
    // Without the controls; smooth edges of the gray ribbons would take a tenth of the file.
    await page.addStyleTag({
      content: `
        .tools, .see .presets, .see .lede, .side .field { display: none !important }
        main { padding-top: 0.8rem }
        .masthead { padding-block: 0.2rem }
        .lanes :is(.rest, .knots) { shape-rendering: crispEdges }`,
    });
    await page.screenshot({ path: file });
  } finally {
    await browser.close();
    await server.close();
  }
  const { size } = fs.statSync(file);
  if (size > kMostBytes) throw new PlainError(`${file}: expected at most ${kMostBytes} bytes, got ${size}`);
  say(`wrote ${file} (${size} bytes)`);
}
