// `npm run picture`: captures the demo's first page. docs/picture.webp is the README's animation: a sentence is typed, the words nearest to its word
// change, and attention is switched off and on. demo/public/share.png is the picture that sites show for links to the demo; `npm run build:demo` captures its own.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { build } from './build.mjs';
import { launchChromium } from './chromium.mjs';
import { isDebian, PlainError, root, run, runMain, say } from './console.mjs';
import { ensureDebianPackages } from './setup.mjs';
import { captureShare, typefaceHasLoaded } from './share-picture.mjs';

const start = ['She deposited her pay at the bank.', 'We fished from the bank.'];
const typed = 'We fished from the bank of a quiet river.';

/** Seconds for which each kind of frame is shown. */
const seconds = { start: 0.8, key: 0.09, end: 1.4, off: 1.6, last: 2.2 };

/** The frames as PNG files in a folder, and the seconds for which each is shown. */
async function captureFrames(browser, url, folder) {
  const page = await browser.newPage({
    viewport: { width: 1060, height: 640 },
    reducedMotion: 'reduce',
    colorScheme: 'light',
    bypassCSP: true, // of styles that are added here
  });
  const [a, b] = start;
  await page.goto(`${url}#see?${new URLSearchParams({ a, b, word: 'bank' })}`);
  await page
    .locator('.status-line')
    .getByText(/Loaded:|Saved:/)
    .waitFor();
  await page.waitForFunction(typefaceHasLoaded);
  await page.addStyleTag({
    content: `
      .masthead, .see .presets, .see header, .stage-controls, .see > .facts { display: none !important }`,
  });
  const frames = [];
  const capture = async (duration) => {
    const file = join(folder, `${String(frames.length).padStart(3, '0')}.png`);
    await page.screenshot({ path: file }); // without the caret, which blinks
    frames.push({ file, duration });
  };
  const box = page.locator('.side input').nth(1);
  await box.focus();
  await page.keyboard.press('End');
  await capture(seconds.start);
  for (let length = start[1].length; length <= typed.length; length++) {
    await box.fill(typed.slice(0, length));
    await page.waitForFunction(
      () => !document.querySelector('.outdated') && !document.querySelector('.path')?.textContent.includes('…'),
    );
    await page.waitForTimeout(150);
    await capture(length === typed.length ? seconds.end : seconds.key);
  }
  // Without attention, then with it.
  for (const off of [true, false]) {
    await page.evaluate((name) => {
      for (const button of document.querySelectorAll('.presets button'))
        if (button.textContent.startsWith(name)) button.click();
    }, 'Switch attention');
    await page.waitForFunction(() => !document.querySelector('.path')?.textContent.includes('…'));
    await capture(off ? seconds.off : seconds.last);
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
    await captureShare(outDir, share);
    const animation = join(root, 'docs/picture.webp');
    await animate(await captureFrames(browser, url, folder), folder, animation);
    checkSize(animation, 1_500_000);
  } finally {
    await browser.close();
    await server.close();
  }
});
