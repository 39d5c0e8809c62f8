/**
 * How long the demo page's main thread is held while one types or watches it learn: the longest tasks in a trace of Chromium, in the thread's own time.
 * And the page's interactions with the processor throttled to a quarter: from a key or a click to the next frame, as Event Timing measures it.
 *
 *     node bench/page-responsiveness.mjs [rounds]
 *
 * Prints its report; `npm run bench -- --only page` builds first and puts it into RESULTS.md.
 */

import { fileURLToPath } from 'node:url';
import { build, preview } from 'vite';
import { launchChromium } from '../tools/chromium.mjs';
import { median } from './harness.mjs';

const configFile = fileURLToPath(new URL('../demo/vite.config.ts', import.meta.url));
const outDir = fileURLToPath(new URL('../build/bench/demo', import.meta.url));

/** 200 KB in which no sentence occurs twice. */
const longText = Array.from(
  { length: 2800 },
  (_, i) => `On day ${i} the harbour master wrote that ${i % 7} boats had arrived before noon.${i % 9 ? '' : '\n\n'}`,
).join(' ');

/** What one does on the page; keys come at a typist's pace. */
const scenarios = {
  async 'typing a sentence on “Meaning”'(page) {
    await page.getByLabel('Your sentences').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type(' It was a bright cold day in April, and the clocks were striking.', { delay: kKeyPause });
  },
  async 'describing a word there'(page) {
    await page.getByLabel('Describe something').click();
    await page.keyboard.type(' that one cannot leave', { delay: kKeyPause });
  },
  async 'pasting a document of 200 KB there, until it has been read'(page) {
    await page.getByRole('textbox', { name: 'Your document' }).evaluate((box, text) => {
      const clipboardData = new DataTransfer();
      clipboardData.setData('text/plain', text);
      box.select();
      box.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
    }, longText);
    await page.getByRole('progressbar', { name: 'Passages read' }).waitFor();
    await page.getByText('passages, all read.').waitFor({ timeout: 300_000 });
  },
  async 'changing a number in “Compute”'(page) {
    await page.getByRole('link', { name: 'Compute', exact: true }).click();
    await page.locator('.all-matrices summary').click();
    await page.locator('#x input').first().click();
    await page.keyboard.type('-1.25', { delay: kKeyPause });
  },
  async 'opening “Watch it learn”, and watching 100 steps of training'(page) {
    await page.getByRole('link', { name: 'Watch it learn' }).click();
    await page.getByRole('button', { name: 'Train', exact: true }).click();
    const done = () => Number.parseInt(document.querySelector('.figures strong').textContent, 10) >= 100;
    await page.waitForFunction(done, null, { timeout: 120_000 });
    await page.getByRole('button', { name: 'Pause' }).click();
  },
  async 'typing an example in “Teach it”'(page) {
    await page.getByRole('link', { name: 'Teach it', exact: true }).click();
    await page.locator('.mattered:not([aria-hidden]) li').first().waitFor({ timeout: 120_000 });
    await page.getByLabel('Text 1', { exact: true }).click();
    await page.keyboard.press('End');
    await page.keyboard.type(' with salt and butter', { delay: kKeyPause });
  },
};

/** How many times slower the processor is while interactions are measured: a phone of the middle class. */
const kThrottle = 4;
/** Milliseconds between keys on a phone, and between clicks. */
const kKeyPause = 150;
const kClickPause = 500;

/** What one does on “See” when the model is there. */
const seeScenarios = {
  async 'typing a sentence on “See”'(page) {
    await page.locator('.side input').first().click();
    await page.keyboard.press('End');
    await page.keyboard.type(' and then went home', { delay: kKeyPause });
  },
  async 'switching attention off and on'(page) {
    await page.getByRole('button', { name: 'Switch attention off' }).click();
    await page.waitForTimeout(kClickPause);
    await page.getByRole('button', { name: 'Switch attention on' }).click();
  },
  async 'choosing tokens'(page) {
    const tokens = page.locator('.side').first().locator('.weighted:enabled');
    for (let i = 0; i < 5; i++) {
      await tokens.nth(i).click();
      await page.waitForTimeout(kClickPause);
    }
  },
  async 'moving through the layers by keys'(page) {
    await page.getByLabel('Up to layer').focus();
    for (let i = 0; i < 5; i++) await page.keyboard.press('ArrowLeft', { delay: kKeyPause });
  },
  async 'another example'(page) {
    await page.getByRole('button', { name: 'star', exact: true }).first().click();
  },
};

/** Milliseconds of each interaction of `act`: from the event to the next frame, in steps of 8; less than 16 counts as 0. */
async function interactions(page, act) {
  await page.evaluate(() => {
    window.interactions = new Map();
    window.observed ??= new PerformanceObserver((list) => {
      for (const { interactionId: id, duration } of list.getEntries())
        if (id) window.interactions.set(id, Math.max(duration, window.interactions.get(id) ?? 0));
    });
    window.observed.observe({ type: 'event', durationThreshold: 16 });
  });
  await act(page);
  await page.waitForTimeout(1500);
  return page.evaluate(() => [...window.interactions.values()]);
}

/** @returns {Promise<{ name: string, slowest: number }[]>} medians over rounds */
async function measureInteractions(browser, origin, rounds) {
  const places = { see: seeScenarios, meaning: scenarios };
  const slowest = Object.fromEntries(
    [...Object.keys(seeScenarios), ...Object.keys(scenarios)].map((name) => [name, []]),
  );
  for (let round = 0; round < rounds; round++)
    for (const [place, acts] of Object.entries(places)) {
      const page = await browser.newPage({ viewport: { width: 412, height: 915 } });
      await page.goto(`${origin}/#${place}`);
      if (place === 'see') await page.locator('.status-line').getByText('Loaded:').waitFor();
      else await page.locator('#map-note').getByText('laid out').waitFor();
      const session = await page.context().newCDPSession(page);
      await session.send('Emulation.setCPUThrottlingRate', { rate: kThrottle });
      for (const [name, act] of Object.entries(acts))
        slowest[name].push(Math.max(0, ...(await interactions(page, act))));
      await page.close();
    }
  return Object.entries(slowest).map(([name, ms]) => ({ name, slowest: median(ms) }));
}

/** Milliseconds of the tasks of pages' main threads, longest first: their own time, without what other processes took. */
export function longestTasks(trace) {
  const { traceEvents } = JSON.parse(trace.toString());
  const thread = ({ pid, tid }) => `${pid} ${tid}`;
  const main = new Set(
    traceEvents.filter(({ name, args }) => name === 'thread_name' && args?.name === 'CrRendererMain').map(thread),
  );
  return traceEvents
    .filter((event) => event.name.endsWith('RunTask') && event.tdur !== undefined && main.has(thread(event)))
    .map(({ tdur }) => tdur / 1000)
    .sort((a, b) => b - a);
}

/** @returns {Promise<{ rounds: number, rows: { name: string, longest: number, over50: number }[], slow: { name: string, slowest: number }[] }>} medians over rounds */
export async function measurePageResponsiveness({ rounds = 5 } = {}) {
  await build({ configFile, logLevel: 'error', build: { outDir } });
  const server = await preview({ configFile, logLevel: 'error', build: { outDir }, preview: { port: 0 } });
  const browser = await launchChromium();
  const longest = Object.fromEntries(Object.keys(scenarios).map((name) => [name, []]));
  const origin = `http://localhost:${server.httpServer.address().port}`;
  let slow;
  try {
    for (let round = 0; round < rounds; round++) {
      const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
      await page.goto(`${origin}/#meaning`);
      await page.locator('.words .word').first().waitFor();
      await page.locator('#map-note').getByText('laid out').waitFor();
      for (const [name, act] of Object.entries(scenarios)) {
        await browser.startTracing(page, {
          categories: ['toplevel', 'disabled-by-default-devtools.timeline', '__metadata'],
        });
        await act(page);
        await page.waitForTimeout(500); // what the last key set off
        longest[name].push(longestTasks(await browser.stopTracing()));
      }
      await page.close();
    }
    slow = await measureInteractions(browser, origin, rounds);
  } finally {
    await browser.close();
    await server.close();
  }
  const rows = Object.entries(longest).map(([name, tasks]) => ({
    name,
    longest: median(tasks.map(([first]) => first)),
    over50: median(tasks.map((all) => all.filter((ms) => ms > 50).length)),
  }));
  return { rounds, rows, slow };
}

/** @returns {string} Markdown */
export function pageReport({ rounds, rows, slow }) {
  return [
    '## Responsiveness of the demo',
    '',
    `Main-thread tasks in Chromium while a user types or watches, in CPU time of that thread; medians over ${rounds} rounds. Tasks of 50 ms or more make a page feel slow.`,
    '',
    '| | longest task, ms | tasks over 50 ms |',
    '| --- | --- | --- |',
    ...rows.map((row) => `| ${row.name} | ${row.longest.toFixed(1)} | ${row.over50} |`),
    '',
    `The slowest interaction, from a key or a click to the next frame, on a screen of 412 pixels with the processor throttled to ${100 / kThrottle} %; a page feels quick up to 200 ms.`,
    '',
    '| | ms |',
    '| --- | --- |',
    ...slow.map((row) => `| ${row.name} | ${row.slowest || 'less than 16'} |`),
  ].join('\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  console.log(pageReport(await measurePageResponsiveness({ rounds: Number(process.argv[2] ?? 5) })));
