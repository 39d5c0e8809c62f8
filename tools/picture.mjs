// `npm run picture`: captures the demo's text page for the README, docs/picture.png.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { launchChromium } from './chromium.mjs';
import { PlainError, root, runMain, say } from './console.mjs';

const file = join(root, 'docs/picture.png');
const limit = 300_000;
const texts = [
  'The bank raised its interest rates.',
  'They sat on the bank of the river.',
  'Lenders charge more for loans.',
];

await runMain(async () => {
  await build();
  const vite = await import('vite');
  const configFile = join(root, 'demo/vite.config.ts');
  await vite.build({ configFile, logLevel: 'warn' });
  const server = await vite.preview({ configFile, preview: { port: 0, host: '127.0.0.1' }, logLevel: 'warn' });
  const browser = await launchChromium();
  try {
    const page = await browser.newPage({
      viewport: { width: 1200, height: 900 },
      reducedMotion: 'reduce',
      colorScheme: 'light',
    });
    const hash = new URLSearchParams({ text: texts.join('\n') });
    await page.goto(`${server.resolvedUrls.local[0]}#text?${hash}`);
    const section = page.locator('section[aria-labelledby="shipped-attention"]');
    await section.getByRole('button', { name: 'Show layer 2, head 3' }).click();
    await section
      .getByRole('button', { name: /^“bank” attends/ })
      .first()
      .click();
    await page.mouse.move(0, 0);
    await section.screenshot({ path: file });
  } finally {
    await browser.close();
    await server.close();
  }
  const { size } = fs.statSync(file);
  if (size > limit) throw new PlainError(`${file}: expected at most ${limit} bytes, got ${size}`);
  say(`wrote ${file} (${size} bytes)`);
});
