/** The demo page in Firefox and WebKit. Screenshots are written to build/tests/browsers for a look. */
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { type Engine, engines } from './engines.mjs';

const folder = fileURLToPath(new URL('../../build/tests/browsers/', import.meta.url));

/** Links to the pages, each with the elements that appear last. */
const pages: Record<string, string[]> = {
  'hand?positions=add&heads=2': ['#mixed td', '.plots svg'],
  text: ['.words li', '#shipped-cosines td', '.plot svg', '.passages li'],
  'text?view=map': ['.map-area canvas', '.plot svg'],
  model: ['.drop'],
  learning: ['.sequence td', '.gradients td', '.plot svg'],
  'learning?part=labels': ['.mattered li', '.plot svg'],
  speed: ['main h1'],
};

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

  test.each(Object.entries(pages))('shows #%s', async (hash, shown) => {
    await engine.resize(1280, 900);
    expect(await open(hash, shown)).toEqual([]);
    await engine.screenshot(`${folder}${name}-${hash.replace(/\W+/g, '-')}.png`);
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
    await engine.screenshot(`${folder}${name}-${hash.replace(/\W+/g, '-')}-phone.png`);
    expect(width).toBeLessThanOrEqual(390);
  });
});
