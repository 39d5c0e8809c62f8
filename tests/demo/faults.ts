/**
 * What once was wrong with the demo page, in every engine: faults.browser.test.ts runs these tests in Chromium, tests/browsers/faults-firefox.test.ts and
 * faults-webkit.test.ts in Firefox and WebKit.
 */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { unzipSync } from 'fflate';
import { load, type TrainingHeed } from 'heed/train';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { Trainer } from '../../demo/src/engine/learning/trainer';
import { samples } from '../../demo/src/pages/learning/labels/samples';
import { descriptions } from '../../demo/src/pages/meaning/examples';
import type { Engine } from '../browsers/engines.mjs';
import { expectCellToHold, readCells } from './arithmetic';
import { initial } from './learning-settings';
import { freshUrl, openIn } from './open-in';
import { exampleOf, hands, pages, unreadable } from './pages';
import { serve } from './setup';
import { mostShift, shiftsIn } from './shifts';
import { sweep } from './sweep';

const saved = `${samples[0]!.examples
  .slice(5, 8)
  .map(({ text }) => text)
  .join('\n')}`;

export function testFaults(name: string, start: () => Promise<Engine>): void {
  // WebKit's page process crashes now and then, whatever the page does; a page that makes it crash does so again.
  describe(name, { retry: name === 'WebKit' ? 1 : 0 }, () => {
    const { url, slowUrl, folder } = inject('demo');
    let engine: Engine;
    let heed: TrainingHeed;
    beforeAll(async () => {
      [engine, heed] = await Promise.all([start(), load({ build: 'simd128' })]);
      await engine.resize(1280, 900);
    });
    afterAll(async () => {
      heed?.dispose();
      await engine?.close();
    });
    const open = async (hash: string, ...shown: string[]) => expect(await openIn(engine, url, hash, shown)).toEqual([]);

    it.each([...hands, '#compute?all=1&scale=0.35&seed=3', '#compute?all=1&positions=concat&norm=1&width=3'])(
      'nothing moves under the pointer, and the arithmetic holds: %s',
      async (hash) => {
        const example = exampleOf(hash);
        await open(example ? '#compute?all=1' : hash, '#output td');
        const shown = await readCells(engine, example);
        const { pixels, which } = await engine.evaluate(sweep, null);
        expect(pixels, which).toBeLessThanOrEqual(1);
        expect(shown.length).toBeGreaterThan(3);
        for (const cell of shown) expectCellToHold(cell);
      },
    );

    it.each([
      ...unreadable.map((values) => `#compute?all=1&${values}&positions=add`),
      '#inside?part=lens&off=9.9,x,1&over=all&strength=99',
    ])('values of a link that cannot be read are ignored: %s', async (hash) => {
      await open(hash, hash.startsWith('#compute?all=1') ? '#output td' : '.lens-table td');
      const { rows, text } = await engine.evaluate(
        async () => ({
          rows: document.querySelectorAll('#x tbody tr').length,
          text: document.querySelector('main')!.innerText,
        }),
        null,
      );
      expect(rows).toBe(hash.startsWith('#compute?all=1') ? 4 : 0);
      expect(text).not.toMatch(/undefined|NaN|null/);
    });

    it('primes stand beside the upper part of their letters, also without a mathematical font', async () => {
      await open('#compute?all=1&positions=add', '.plots svg');
      for (const font of ['math', 'serif', 'sans-serif']) {
        const places = await engine.evaluate(async (family) => {
          // The content security policy forbids style elements.
          const sheet = new CSSStyleSheet();
          sheet.replaceSync(`math { font-family: ${family} !important }`);
          document.adoptedStyleSheets = [sheet];
          return [...document.querySelectorAll('mo.prime')].map((prime) => {
            const [mark, letter] = [prime, prime.previousElementSibling!].map((one) => one.getBoundingClientRect());
            return { above: (letter!.top - mark!.top) / letter!.height, isRight: mark!.left >= letter!.left };
          });
        }, font);
        expect(places.length).toBeGreaterThan(3);
        for (const { above, isRight } of places) {
          expect(isRight, font).toBe(true);
          expect(above, font).toBeLessThan(0.3); // does not float above the letter
        }
      }
    });

    it('Enter keeps a cell selected and releases it, and steppers have names of their own', async () => {
      await open('#compute?all=1&heads=2', '#mixed td');
      const names = await engine.evaluate(async () => {
        document.querySelector<HTMLElement>('#weights td[data-row="0"][data-column="0"]')!.focus();
        return [...document.querySelectorAll('.stepper button')].map((button) => button.getAttribute('aria-label'));
      }, null);
      expect(names.length).toBe(4);
      expect(new Set(names).size).toBe(names.length);
      for (const key of ['ArrowDown', 'ArrowRight', 'Enter']) await engine.press(key);
      const addressWith = (at: string, has: boolean) =>
        engine.evaluate(
          ({ at, has }) => until(() => decodeURIComponent(location.hash).includes(at) === has && location.hash),
          { at, has },
        );
      await addressWith('at=query:1,key:1', true);
      await engine.press(' ');
      await addressWith('query:1', false);
    });

    it.each([
      ['#inside', 1],
      ['#learn', 1],
    ] as const)('the heads of %s take %i presses of Tab, and arrow keys move between them', async (hash, stops) => {
      await open(`${hash}?head=2.1`, '.head button');
      await engine.evaluate(
        async () => document.querySelector<HTMLElement>('.head-grid :is(button, input):not([tabindex="-1"])')!.focus(),
        null,
      );
      const isInside = () => engine.evaluate(async () => !!document.activeElement!.closest('.head-grid'), null);
      let presses = 0;
      for (; presses < 9 && (await isInside()); presses++) await engine.press('Tab');
      expect(presses).toBe(stops);
      await engine.evaluate(
        async () => document.querySelector<HTMLElement>('.head-grid button[tabindex="0"]')!.focus(),
        null,
      );
      const focused = () => engine.evaluate(async () => document.activeElement!.getAttribute('aria-label'), null);
      await engine.press('ArrowRight');
      expect(await focused()).toBe('Show layer 2, head 2');
      await engine.press('ArrowUp');
      expect(await focused()).toBe('Show layer 1, head 2');
      await engine.press('Enter');
      await engine.evaluate(() => until(() => /head=1/.test(location.hash)), null);
    });

    it('opening a model and cancelling keep the focus', async () => {
      const press = async (name: string) => {
        await engine.evaluate(async (name) => (await until(() => buttonOf(name))).focus(), name);
        await engine.press('Enter');
      };
      const focused = () =>
        engine.evaluate(
          async () => document.activeElement!.getAttribute('aria-label') ?? document.activeElement!.textContent,
          null,
        );
      await open(`#meaning?model=own&${new URLSearchParams({ url: new URL('/model/', url).href })}`, '.drop');
      await press('Open');
      await engine.evaluate(() => until(() => document.querySelector('#cosines td') !== null), null);
      expect(await focused()).toBe('Open');
      // Of another host, because the service worker would wait for ever, too.
      await open(
        `#meaning?model=own&${new URLSearchParams({ url: new URL('/never/', url.replace('localhost', '127.0.0.1')).href })}`,
        '.drop',
      );
      await press('Open');
      await press('Cancel');
      await engine.evaluate(
        () => until(() => document.querySelector('main')!.innerText.includes('Loading was cancelled')),
        null,
      );
      expect(await focused()).toBe('Model source');
    });

    it('draws the lines of a long sentence, whose weights are all small', async () => {
      const text = Array.from({ length: 10 }, () => 'the old man went to the bank by the river').join(' ');
      // A head that attends to many tokens.
      await open(`#inside?${new URLSearchParams({ text, layer: '0', head: '0' })}`, '.queries .token', '.lines line');
      const [tokens, lines] = await engine.evaluate(
        async () =>
          ['.queries .token', '.lines line'].map((selector) => document.querySelectorAll(selector).length) as [
            number,
            number,
          ],
        null,
      );
      expect(tokens).toBeGreaterThan(90);
      expect(lines).toBeGreaterThan(3);
    });

    it('the first example of the dictionary finds its word', async () => {
      await open('#meaning', '.words .word');
      const [description, word] = descriptions[0]!;
      const shown = await engine.evaluate(
        async () => [
          document.querySelector('.words .word')!.textContent,
          ...[...document.querySelectorAll<HTMLInputElement>('main input[type=text]')].map(({ value }) => value),
        ],
        null,
      );
      expect(shown[0]).toBe(word);
      expect(shown).toContain(description);
    });

    it('the largest weight is that of the sharpest head, and the figures are those of the trainer in Node', async () => {
      const trainer = new Trainer(heed, initial);
      for (let step = 0; step < 30; step++) trainer.train();
      const { loss, accuracy } = trainer.measure();
      const shares = trainer
        .snapshot()
        .sharpness.flat()
        .map((share) => `${(100 * share).toFixed(0)} %`);
      trainer.dispose();
      await open('#learn?step=30&build=simd128', '.figures strong');
      const shown = await engine.evaluate(async () => {
        const texts = (selector: string) => [...document.querySelectorAll(selector)].map((one) => one.textContent!);
        await until(() => texts('.figures strong')[0] === '30' && buttonOf('Go on'));
        return { figures: texts('.figures strong'), shares: texts('.head small') };
      }, null);
      const largest = `${Math.max(...shares.map((share) => Number.parseInt(share, 10)))} %`;
      expect(shown).toEqual({
        figures: ['30', `${(100 * accuracy).toFixed(1)} %`, loss.toFixed(3), largest],
        shares,
      });
    });

    it('labels: semicolons and tabs in a file, labels that differ by case, and a text of unknown tokens', async () => {
      await open('#teach?examples=none', '.from-file');
      await engine.evaluate(async () => {
        const drop = (name: string, contents: string) => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([contents], name));
          document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true }));
        };
        const says = (text: string) => until(() => document.querySelector('main')!.innerText.includes(text));
        drop('semicolons.csv', 'text;label\nBread, fresh;food\nA loud drum;music\n');
        await says('2 examples added from semicolons.csv.');
        drop('tabs.tsv', 'text\tlabel\nAn old violin\tMusic\nA ripe pear, sliced\tfood\n');
        await says('2 examples added from tabs.tsv.');
        await says('4 examples of 2 labels');
        await says('Counts as “music”: only the case differs.');
        write('try', '漢字');
        await says('Nothing in this text is in the model’s vocabulary: the probabilities are a guess.');
      }, null);
      const fields = await engine.evaluate(
        async () =>
          [1, 2, 3, 4].map((at) => document.querySelector<HTMLInputElement>(`[aria-label="Text ${at}"]`)!.value),
        null,
      );
      expect(fields).toEqual(['Bread, fresh', 'A loud drum', 'An old violin', 'A ripe pear, sliced']);
    });

    it('the folder that is saved shows its labels on “Meaning”', async () => {
      // Takes the archive, and serves what is in it.
      let files: Record<string, Uint8Array> = {};
      const server = createServer(async (request, response) => {
        response.setHeader('Access-Control-Allow-Origin', '*');
        response.setHeader('Access-Control-Allow-Headers', '*');
        if (request.method === 'POST') {
          const chunks: Buffer[] = [];
          for await (const chunk of request) chunks.push(chunk as Buffer);
          files = unzipSync(Buffer.concat(chunks));
        }
        const file = files[request.url!.slice(1)];
        response.writeHead(file || request.method !== 'GET' ? 200 : 404).end(file);
      }).listen(0);
      await once(server, 'listening');
      const address = `http://localhost:${(server.address() as AddressInfo).port}/`;
      try {
        await open('#teach?build=simd128', '.probabilities li');
        await engine.evaluate(async (address) => {
          let archive: Blob | undefined;
          URL.createObjectURL = (blob: Blob) => {
            archive = blob;
            return '#';
          };
          HTMLAnchorElement.prototype.click = () => {}; // would write a file
          buttonOf('Download my-labels.zip')!.click();
          await fetch(address, { method: 'POST', body: await until(() => archive), mode: 'no-cors' });
        }, address);
        expect(Object.keys(files)).toContain('config.json');
        const model = await heed.fromPretrained(files);
        expect(model.config.labels).toEqual(['cooking', 'money', 'travel']);
        const scores = await model.predict('sequence-classification', saved.split('\n'));
        const labels = heed
          .softmax(scores.logits)
          .toArray<number[][]>()
          .map((row) => row.indexOf(Math.max(...row)))
          .map((at) => model.config.labels[at]);
        model.dispose();
        await open(
          `#meaning?model=own&${new URLSearchParams({ text: saved, url: address, build: 'simd128' })}`,
          '.drop',
        );
        const shown = await engine.evaluate(async () => {
          buttonOf('Open')!.click();
          await until(() => document.querySelector('#own-labels td'));
          return [...document.querySelectorAll('#own-labels tr')].map((row) =>
            [...row.children].map((cell) => cell.textContent),
          );
        }, null);
        expect(shown.map(([text, label]) => [text, label])).toEqual(
          saved.split('\n').map((text, i) => [text, labels[i]]),
        );
      } finally {
        server.close();
      }
    });

    // Chromium reports layout shifts itself: layout.browser.test.ts.
    it.skipIf(name === 'Chromium').each(Object.entries(pages))(
      'hardly anything moves while the page loads: %s',
      async (hash, shown) => {
        await engine.goto(freshUrl(url, '#speed'));
        const found = await engine.evaluate(shiftsIn, {
          url: freshUrl(slowUrl, hash),
          shown,
          widths: [1280, 390],
        });
        console.log(`${name}: layout shift of ${hash}: ${found.map(({ total }) => total.toFixed(3)).join(', ')}`);
        for (const { total, moved } of found) expect(total, moved.join('\n')).toBeLessThanOrEqual(mostShift);
      },
    );

    it('keeps one build of the module, works without its server, and says plainly that “Watch it learn” is not there', async () => {
      const server = await serve(folder);
      try {
        expect(await openIn(engine, `${server.origin}/heed/`, '#compute?all=1', ['#output td'])).toEqual([]);
        await engine.evaluate(
          () => until(() => document.querySelector('.status-line')!.textContent!.includes('Saved: the page now works')),
          null,
        );
        const modules = server.requested.filter((path) => path.endsWith('.wasm'));
        expect(new Set(modules).size).toBe(1);
        server.close();
        expect(await openIn(engine, `${server.origin}/heed/`, '#compute?all=1', ['#output td'])).toEqual([]);
        const said = await engine.evaluate(async () => {
          location.hash = '#learn';
          const alert = await until(() => document.querySelector<HTMLElement>('[role=alert]'));
          const unreachable = alert.innerText;
          Object.defineProperty(navigator, 'onLine', { value: false });
          dispatchEvent(new Event('offline'));
          await until(() => alert.innerText !== unreachable);
          return { unreachable, offline: alert.innerText, footer: document.querySelector('footer')!.innerText };
        }, null);
        expect(said.unreachable).toMatch(
          /^This page could not be loaded\.\s+A file could not be downloaded, or is damaged\. Check your connection/,
        );
        expect(said.offline).toContain('You are offline. It is tried again when you are connected to the network.');
        expect(said.footer).toContain(
          'the page still works, except “Watch it learn” and “Teach it” if they were not opened before',
        );
      } finally {
        server.close();
      }
    });

    it('complies with its content security policy on every page', async () => {
      const origin = new URL(url).origin;
      const reported = async () =>
        ((await (await fetch(`${origin}/violations`)).json()) as { 'csp-report': Record<string, string> }[]).map(
          (report) => report['csp-report'],
        );
      for (const [hash, shown] of Object.entries(pages)) await open(hash, ...shown);
      // A violation is reported: what a test cannot see would not fail.
      const own = `provoked-in-${name}`;
      await engine.goto(`${url}?${own}`);
      await engine.evaluate(async () => {
        document.body.append(Object.assign(document.createElement('script'), { textContent: '0' }));
      }, null);
      const of = (part: string) => async () =>
        (await reported()).filter((report) => report['document-uri']!.includes(part)).length;
      await expect.poll(of(own)).toBe(1);
      expect((await reported()).filter((report) => !report['document-uri']!.includes('provoked-in'))).toEqual([]);
    });
  });
}
