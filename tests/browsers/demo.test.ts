/** The demo page in Firefox and WebKit. Screenshots are written to build/tests/browsers for a look. */
import { mkdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { openIn } from '../demo/open-in';
import { exampleOf, hands, pages } from '../demo/pages';
import { type Engine, engines } from './engines.mjs';

const folder = fileURLToPath(new URL('../../build/tests/browsers/', import.meta.url));

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
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true });
    engine = await engines[name]();
  });
  afterAll(() => engine?.close());

  const open = (hash: string, shown: string[]) => openIn(engine, url, hash, shown);

  test.each(Object.entries(pages))('shows %s, in which axe finds nothing', async (hash, shown) => {
    await engine.resize(1280, 900);
    expect(await open(hash, shown)).toEqual([]);
    await engine.screenshot(`${folder}${name}-${nameOf(hash)}.png`);
    expect(await engine.evaluate(withAxe, null)).toEqual([]);
  });

  const all = { ...pages, ...Object.fromEntries(hands.map((hash) => [hash, ['#output td']])) };
  test.each(Object.entries(all))('does not scroll sideways, from 320 to 2560 px: %s', async (hash, shown) => {
    await engine.resize(600, 1000);
    await engine.goto(`${url}?frames#speed`);
    const example = exampleOf(hash);
    // In frames, because WebKitGTK's windows are not narrower than their toolbar.
    const overflows = await engine.evaluate(
      async ({ url, shown, widths, example }) => {
        const drawn = () => new Promise(requestAnimationFrame);
        const frame = Object.assign(document.createElement('iframe'), { src: url, width: '390', height: '800' });
        document.body.replaceChildren(frame);
        await new Promise((resolve) => frame.addEventListener('load', resolve, { once: true }));
        const { document: page } = frame.contentWindow!;
        const complete = () =>
          !page.querySelector('.waiting, .plot:empty') && shown.every((selector) => page.querySelector(selector));
        while (!complete()) await drawn();
        if (example) {
          const button = [...page.querySelectorAll('button')].find(({ textContent }) => textContent === example)!;
          button.click();
          while (button.ariaPressed !== 'true' || !complete()) await drawn();
        }
        const found: Record<string, number> = {};
        for (const width of widths) {
          frame.width = `${width}`;
          // Plots follow the width.
          for (let i = 0; i < 3; i++) await drawn();
          found[width] = page.documentElement.scrollWidth - page.documentElement.clientWidth;
        }
        frame.width = '390';
        await drawn();
        return found;
      },
      {
        url: `${url}?frame${example ? '#compute?all=1' : hash}`,
        shown,
        widths: [320, 360, 390, 600, 1280, 2560],
        example,
      },
    );
    await engine.screenshot(`${folder}${name}-${nameOf(hash)}-phone.png`);
    for (const [width, pixels] of Object.entries(overflows)) expect(pixels, `at ${width} px`).toBeLessThanOrEqual(0);
  });

  test('heads switch off with a click and with the keyboard, and the result follows (#lens)', async () => {
    await engine.resize(1280, 900);
    expect(await open('#inside?part=lens', pages['#inside?part=lens']!)).toEqual([]);
    const seen = await engine.evaluate(async () => {
      const result = () => document.querySelector('#lens-heads ~ .lens-result')!.textContent!;
      const until = async (holds: () => boolean) => {
        while (!holds()) await new Promise(requestAnimationFrame);
      };
      const cell = (name: string) => document.querySelector<HTMLElement>(`[aria-label="Switch off ${name}"]`)!;
      const isOff = (name: string) => cell(name).getAttribute('aria-pressed');
      await until(() => /sentences: [\d.]+/.test(result()));
      const plain = Number(/sentences: ([\d.]+)/.exec(result())![1]);
      cell('layer 6, head 10').focus();
      cell('layer 6, head 10').click();
      await until(() => result().includes('with all heads'));
      const [edited, before] = /sentences: ([\d.]+), with all heads ([\d.]+)/.exec(result())!.slice(1).map(Number);
      cell('layer 6, head 10').dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp', bubbles: true }));
      const focused = document.activeElement!.getAttribute('aria-label');
      return { plain, edited, before, pressed: isOff('layer 6, head 10'), focused };
    }, null);
    expect(seen.before).toBe(seen.plain);
    expect(seen.edited! - seen.plain).toBeGreaterThan(0.08); // as the page says
    expect(seen).toMatchObject({ pressed: 'true', focused: 'Switch off layer 5, head 10' });
  });
});
