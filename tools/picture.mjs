// `npm run picture`: captures the demo's text page. docs/picture.webp is the README's animation: a sentence is typed, and the similarities and the attention
// weights change. demo/public/share.png is the picture that sites show for links to the demo.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { launchChromium } from './chromium.mjs';
import { isDebian, PlainError, root, run, runMain, say } from './console.mjs';
import { ensureDebianPackages } from './setup.mjs';

const texts = ['The bank raised its interest rates.', 'They sat on the bank of the river.'];
const typed = 'Money is lent at a higher price.';
const style = { layer: '1', head: '2' };

/** Seconds for which each kind of frame is shown. */
const seconds = { start: 0.8, key: 0.09, end: 0.9, token: 0.9, last: 2.2 };

const attention = 'section[aria-labelledby="shipped-attention"]';

async function openTextPage(browser, url, parameters, viewport) {
  const page = await browser.newPage({
    viewport,
    reducedMotion: 'reduce',
    colorScheme: 'light',
    bypassCSP: true, // of styles that are added here
  });
  await page.goto(`${url}#text?${new URLSearchParams(parameters)}`);
  await page.locator('.words .word').first().waitFor();
  await page.locator(`${attention} .lines`).waitFor();
  await page.evaluate(() => document.fonts.ready);
  return page;
}

/** Hides parts of the page, so that what is left fits into the picture. */
const hide = (page, ...selectors) =>
  page.addStyleTag({ content: `${selectors.join(', ')} { display: none !important }` });

async function captureShare(browser, url, file) {
  const parameters = { text: [...texts, typed].join('\n'), ...style };
  const page = await openTextPage(browser, url, parameters, { width: 1200, height: 630 });
  await hide(
    page,
    '.duo',
    '.tools',
    '.facts',
    '.panel:not(:has(.attention))',
    '.panel .learn',
    '.panel > .field',
    '.head-effect',
    '.status-line',
    '.panel > header',
  );
  await page.addStyleTag({ content: '.panel { margin-top: 0; padding-top: 1rem }' });
  await page.screenshot({ path: file });
  await page.close();
}

/** The frames as PNG files in a folder, and the seconds for which each is shown. */
async function captureFrames(browser, url, folder) {
  const parameters = { text: texts.join('\n'), sentence: '2', ...style };
  const page = await openTextPage(browser, url, parameters, { width: 1060, height: 780 });
  await hide(
    page,
    '.masthead',
    '.page-head',
    '.dictionary',
    '.panel:not(:has(.attention))',
    '.panel .learn',
    '.panel > .field',
    '.head-effect',
    '.status-line',
  );
  await page.addStyleTag({
    content: `
      main { display: grid; grid-template-columns: 25rem 1fr; gap: 2rem; padding: 1.2rem 1.6rem; max-width: none }
      main > .duo { display: block }
      main > .panel { margin: 0; padding: 0; border: 0; align-content: start }
      .panel .attention { grid-template-columns: 1fr; gap: 1rem }
      .head-grid { max-width: 27rem }
      .readout { min-height: 3em }
      .timing { visibility: hidden }`,
  });
  const frames = [];
  const capture = async (duration) => {
    const file = join(folder, `${String(frames.length).padStart(3, '0')}.png`);
    await page.screenshot({ path: file }); // without the caret, which blinks
    frames.push({ file, duration });
  };
  const box = page.getByLabel('Your sentences');
  await box.focus();
  await page.keyboard.press('Control+End');
  await capture(seconds.start);
  await page.keyboard.press('Enter');
  for (const [i, key] of [...typed].entries()) {
    await page.keyboard.type(key);
    const written = typed.slice(0, i + 1);
    // The attention weights are those of the sentence as it is now, and so are the similarities.
    const rows = page.locator('#shipped-cosines tbody th');
    await rows.nth(texts.length).getByText(`3 ${written.trimEnd()}`, { exact: true }).waitFor();
    await page.waitForTimeout(150);
    await capture(i === typed.length - 1 ? seconds.end : seconds.key);
  }
  for (const token of ['lent', 'price']) {
    await page.locator(`${attention} .queries .token`, { hasText: token }).first().hover();
    await capture(token === 'price' ? seconds.last : seconds.token);
  }
  await page.close();
  return frames;
}

/** An animated WebP file that loops; ffmpeg reads the frames and their durations from a list. */
async function animate(frames, folder, file) {
  const list = join(folder, 'frames.txt');
  const lines = frames.map(({ file, duration }) => `file '${file}'\nduration ${duration}`);
  // The last frame is named twice, because the duration of the last entry is ignored.
  fs.writeFileSync(list, `${[...lines, `file '${frames.at(-1).file}'`].join('\n')}\n`);
  const input = ['-f', 'concat', '-safe', '0', '-i', list, '-fps_mode', 'vfr'];
  const encoder = ['-c:v', 'libwebp_anim', '-lossless', '0', '-quality', '80', '-compression_level', '6', '-loop', '0'];
  await run(['ffmpeg', '-y', '-loglevel', 'error', ...input, ...encoder, file], { quiet: true });
}

function checkSize(file, limit) {
  const { size } = fs.statSync(file);
  if (size > limit) throw new PlainError(`${file}: expected at most ${limit} bytes, got ${size}`);
  say(`wrote ${file} (${size} bytes)`);
}

await runMain(async () => {
  if (isDebian()) await ensureDebianPackages(['ffmpeg']);
  else if ((await run(['ffmpeg', '-version'], { quiet: true, allowFailure: true })).status !== 0)
    throw new PlainError('ffmpeg is missing; install it to make the animation');
  await build();
  const vite = await import('vite');
  const configFile = join(root, 'demo/vite.config.ts');
  const folder = join(root, 'build/picture');
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  const outDir = join(folder, 'demo');
  await vite.build({ configFile, logLevel: 'warn', build: { outDir } });
  const preview = { port: 0, host: '127.0.0.1' };
  const server = await vite.preview({ configFile, preview, build: { outDir }, logLevel: 'warn' });
  const browser = await launchChromium();
  try {
    const url = server.resolvedUrls.local[0];
    const share = join(root, 'demo/public/share.png');
    await captureShare(browser, url, share);
    checkSize(share, 150_000);
    const animation = join(root, 'docs/picture.webp');
    await animate(await captureFrames(browser, url, folder), folder, animation);
    checkSize(animation, 1_500_000);
  } finally {
    await browser.close();
    await server.close();
  }
});
