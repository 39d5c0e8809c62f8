/** The demo page in Firefox and WebKit. Screenshots are written to build/tests/browsers for a look. */
import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { sharedLabels } from '../demo/site';
import { sweep } from '../demo/sweep';
import { type Engine, engines } from './engines.mjs';

const folder = fileURLToPath(new URL('../../build/tests/browsers/', import.meta.url));

/** Links to the pages, each with the elements that appear last. */
const pages: Record<string, string[]> = {
  start: ['.shares li', '.ways button:enabled'],
  'hand?tour=4': ['.tour h1', '#output td'],
  'hand?positions=add&heads=2': ['#mixed td', '.plots svg'],
  text: ['.words li', '#shipped-cosines td', '.plot svg', '.passages li'],
  'text?view=map': ['.map-area canvas', '.plot svg'],
  model: ['.drop'],
  learning: ['.sequence td', '.gradients td', '.plot svg'],
  'learning?part=labels': ['.mattered li', '.plot svg'],
  [`learning?${sharedLabels}`]: ['.probabilities li'],
  lens: ['.lens-table td', '.lens-cell[title]'],
  speed: ['main h1'],
};

const nameOf = (hash: string) => hash.slice(0, 40).replace(/\W+/g, '-');

const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
/** Runs axe in the page. Its source is part of the script, because the page's policy forbids to evaluate texts. */
const withAxe = Object.assign(async (_: null): Promise<string[]> => [], {
  toString: () => `async () => {
    ${axe};
    const { violations } = await window.axe.run({ resultTypes: ['violations'] });
    return violations.map(({ id, nodes }) => id + ': ' + nodes.slice(0, 3).map(({ html }) => html).join(' '));
  }`,
});

describe.each(Object.keys(engines) as (keyof typeof engines)[])('%s', (name) => {
  let engine: Engine;
  const { url } = inject('demo');
  let documents = 0;
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true });
    engine = await engines[name]();
  });
  afterAll(() => engine?.close());

  /** Opens a page of the demo in a new document and waits until it is complete. Returns the errors that it shows. */
  const open = async (hash: string, shown: string[]) => {
    await engine.goto(`${url}?${documents++}#${hash}`);
    return engine.evaluate(async (selectors) => {
      const complete = () =>
        /Loaded:|Saved:/.test(document.querySelector('.status-line')?.textContent ?? '') &&
        !document.querySelector('.waiting, .plot:empty') &&
        selectors.every((selector) => document.querySelector(selector));
      const failed = () => document.querySelector('[role=alert]');
      while (!complete() && !failed()) await new Promise(requestAnimationFrame);
      return [...document.querySelectorAll('[role=alert]')].map((alert) => alert.textContent);
    }, shown);
  };

  // The page's policy holds here, too: what it forbids would not be shown.
  test.each(Object.entries(pages))('shows #%s, in which axe finds nothing', async (hash, shown) => {
    await engine.resize(1280, 900);
    expect(await open(hash, shown)).toEqual([]);
    await engine.screenshot(`${folder}${name}-${nameOf(hash)}.png`);
    expect(await engine.evaluate(withAxe, null)).toEqual([]);
  });

  test.each(Object.entries(pages))('does not scroll sideways on a phone (#%s)', async (hash, shown) => {
    await engine.resize(600, 1000);
    await engine.goto(`${url}?${documents++}#speed`);
    // In a frame, because WebKitGTK's windows are not narrower than their toolbar.
    const width = await engine.evaluate(
      async ({ url, shown }) => {
        const frame = Object.assign(document.createElement('iframe'), { src: url, width: '390', height: '800' });
        document.body.replaceChildren(frame);
        await new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }));
        const { document: page } = frame.contentWindow!;
        while (!shown.every((selector) => page.querySelector(selector))) await new Promise(requestAnimationFrame);
        return page.documentElement.scrollWidth;
      },
      { url: `${url}?${documents++}#${hash}`, shown },
    );
    await engine.screenshot(`${folder}${name}-${nameOf(hash)}-phone.png`);
    expect(width).toBeLessThanOrEqual(390);
  });

  test.each(['hand', 'hand?width=8&scale=1&seed=2816', 'hand?heads=4&width=8'])(
    'nothing moves while the pointer does (#%s)',
    async (hash) => {
      await engine.resize(1280, 900);
      expect(await open(hash, ['#output td'])).toEqual([]);
      await engine.evaluate(async () => {
        while (!document.fonts.check('1rem "Source Serif 4"')) await new Promise(requestAnimationFrame);
      }, null);
      const { pixels, which } = await engine.evaluate(sweep, null);
      expect(pixels, which).toBeLessThanOrEqual(1);
    },
  );

  test.each(['hand?heads=4&width=8', 'hand?words=donaudampfschifffahrtsgesellschaft|b|c|d'])(
    'wide matrices and long words do not widen the page (#%s)',
    async (hash) => {
      await engine.resize(1280, 900);
      expect(await open(hash, ['#output td'])).toEqual([]);
      const [all, visible] = await engine.evaluate(
        async () => [document.documentElement.scrollWidth, document.documentElement.clientWidth],
        null,
      );
      expect(all).toBeLessThanOrEqual(visible!);
    },
  );

  test('garbage in a link is ignored, and primes stand on the line of their letters', async () => {
    expect(await open('hand?x=;;;&words=&positions=add', ['#output td', '.plots svg'])).toEqual([]);
    const above = await engine.evaluate(
      async () =>
        [...document.querySelectorAll('mo.prime')].map((prime) => {
          const [mark, letter] = [prime, prime.previousElementSibling!].map((one) => one.getBoundingClientRect());
          return (letter!.top - mark!.top) / letter!.height;
        }),
      null,
    );
    expect(above.length).toBeGreaterThan(3);
    expect(Math.max(...above)).toBeLessThan(0.3);
  });
});
