/** Search in a document on the page “Meaning”: results against the library, long and unusual documents, cancelling. */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { load, type PretrainedModel, similarity } from 'heed';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { passagesOf } from '../../demo/src/pages/meaning/document/passages';
import { sampleText } from '../../demo/src/pages/meaning/document/sample';
import { newVisit, openSite, type Site, shownWithin } from './site';

let site: Site;
let model: PretrainedModel;
let folder: string;
beforeAll(async () => {
  site = await openSite();
  model = await (await load()).fromPretrained(undefined, { dtype: 'fp32' });
  folder = await mkdtemp(join(tmpdir(), 'heed-'));
});
afterAll(async () => {
  model?.dispose();
  await site?.close();
});

const box = (page: Page) => page.getByLabel(/^Your document/);
const allRead = (page: Page) => page.getByText(/passages?, all read\./);

/** Replaces the document with what is pasted. */
const paste = (page: Page, text: string) =>
  box(page).evaluate((element: HTMLTextAreaElement, pasted) => {
    const clipboardData = new DataTransfer();
    clipboardData.setData('text/plain', pasted);
    element.select();
    element.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }));
  }, text);

/** 50 KB in which no sentence occurs twice. */
const longText = Array.from(
  { length: 700 },
  (_, i) => `On day ${i} the harbour master wrote that ${i % 7} boats had arrived before noon.${i % 9 ? '' : '\n\n'}`,
).join(' ');

describe('search in a document', () => {
  it('finds the passages whose sentences are nearest to the question, and marks these', async () => {
    const question = 'a place to buy food';
    const passages = [...passagesOf(sampleText)];
    const { data } = similarity(await model.embed([question]), await model.embed(passages.flat()));
    let at = 0;
    const expected = passages
      .map((sentences) => {
        const scores = [...data.subarray(at, at + sentences.length)];
        at += sentences.length;
        const score = Math.max(...scores);
        return { text: sentences.join(' '), score, best: sentences[scores.indexOf(score)] };
      })
      .sort((a, b) => b.score - a.score);
    const { page, complaints } = await site.open(`#meaning?ask=${encodeURIComponent(question)}`);
    await allRead(page).waitFor();
    await page.locator('.passages mark').first().waitFor();
    const shown = await page.locator('.passages li').evaluateAll((items) =>
      items.map((item) => ({
        text: item.querySelector('p')!.textContent,
        best: item.querySelector('mark')!.textContent,
        score: Number(item.querySelector('.score')!.textContent),
      })),
    );
    expect(shown).toHaveLength(5);
    expect(shown[0]!.best).toContain('The village shop');
    for (const [rank, { text, best, score }] of shown.entries()) {
      expect(Math.abs(score - expected[rank]!.score)).toBeLessThan(shownWithin);
      expect(best).toBe(expected.find((each) => each.text === text)!.best);
    }
    await page.getByLabel('Your question').fill('a lake with fish');
    await expect.poll(() => page.locator('.passages li').first().innerText()).not.toContain('The village shop');
    await page.getByLabel('Your question').fill('');
    await page.getByText('Ask a question to search the document.').waitFor();
    expect(await page.locator('.passages li').count()).toBe(0);
    expect(complaints).toEqual([]);
  });

  it('reads 50 KB a few sentences at a time, and can be stopped and resumed', async () => {
    const { page, context, complaints } = await newVisit(site.browser, { serviceWorkers: 'block' });
    // Holds back calls with many texts while `held`, and notes how many texts a call has.
    await page.addInitScript(() => {
      const gate = { held: false, waiting: [] as (() => void)[], most: 0, passed: 0 };
      Object.assign(globalThis, { gate });
      const { Worker: Plain } = globalThis;
      globalThis.Worker = class extends Plain {
        override postMessage(message: { method?: string; args?: unknown[] }, ...rest: unknown[]) {
          // The beginning is tokenized whole, for notes on what the model cannot read.
          const texts =
            message.method === 'tokenize' ? 0 : (JSON.stringify(message).match(/harbour master/g)?.length ?? 0);
          gate.most = Math.max(gate.most, texts);
          const send = () => super.postMessage(message, ...(rest as []));
          if (texts <= 1) send();
          else if (gate.held && gate.passed >= 3) gate.waiting.push(send);
          else {
            gate.passed++;
            send();
          }
        }
      };
    });
    const setHeld = (held: boolean) =>
      page.evaluate((value) => {
        const { gate } = globalThis as unknown as { gate: { held: boolean; waiting: (() => void)[]; passed: number } };
        gate.held = value;
        gate.passed = 0;
        if (!value) for (const send of gate.waiting.splice(0)) send();
      }, held);
    await page.goto(`${site.url}#meaning?ask=ships`);
    await allRead(page).waitFor();
    await setHeld(true);
    await paste(page, longText);
    await page.getByRole('progressbar', { name: 'Passages read' }).waitFor();
    // The fourth call waits.
    await page.waitForFunction(
      () => (globalThis as unknown as { gate: { waiting: unknown[] } }).gate.waiting.length > 0,
    );
    await page.getByRole('button', { name: 'Stop' }).click();
    await page.getByText(/^Stopped: [\d,]+ of [\d,]+ passages can be searched\.$/).waitFor();
    await setHeld(false);
    await page.getByLabel('Your question').fill('harbour');
    await expect.poll(() => page.locator('.passages li').first().innerText()).toContain('harbour master');
    await page.getByRole('button', { name: 'Continue' }).click();
    await allRead(page).waitFor();
    expect(await page.evaluate(() => (globalThis as unknown as { gate: { most: number } }).gate.most)).toBe(32);
    const passages = [...passagesOf(longText)].length;
    expect(await allRead(page).innerText()).toBe(`${passages.toLocaleString('en')} passages, all read.`);
    expect(complaints).toEqual([]);
    await context.close();
  });

  it('keeps saying that the document could not be read while searches succeed', async () => {
    const { page, context } = await newVisit(site.browser, { serviceWorkers: 'block' });
    // The third call with many texts fails.
    await page.addInitScript(() => {
      const { Worker: Plain } = globalThis;
      let calls = 0;
      globalThis.Worker = class extends Plain {
        override postMessage(message: { method?: string }, ...rest: unknown[]) {
          const texts =
            message.method === 'tokenize' ? 0 : (JSON.stringify(message).match(/harbour master/g)?.length ?? 0);
          if (texts > 1 && ++calls === 3) throw new Error('Refused by the test.');
          super.postMessage(message, ...(rest as []));
        }
      };
    });
    await page.goto(`${site.url}#meaning?ask=ships`);
    await allRead(page).waitFor();
    // What is read again need not be embedded, so its passages can be searched.
    const beginning = `${longText.slice(0, 2000)}\n\nThe end.`;
    await paste(page, beginning);
    const passages = [...passagesOf(beginning)].length;
    await expect.poll(() => allRead(page).innerText()).toBe(`${passages} passages, all read.`);
    await paste(page, longText);
    const failure = page.getByRole('alert').getByText('Refused by the test.');
    await failure.waitFor();
    for (const question of ['boats before noon', 'what the harbour master wrote']) {
      const shown = await page.locator('.passages').innerText();
      await page.getByLabel('Your question').fill(question);
      await expect.poll(() => page.locator('.passages').innerText()).not.toBe(shown);
      expect(await failure.count()).toBe(1);
    }
    await context.close();
  });

  it('handles files and texts that are not prose', async () => {
    const { page, complaints } = await site.open('#meaning');
    await allRead(page).waitFor();
    const choose = async (name: string, content: string | Uint8Array) => {
      await writeFile(join(folder, name), content);
      await page.locator('.document input[type=file]').setInputFiles(join(folder, name));
    };
    const alert = page.getByRole('alert');
    await choose('empty.txt', '');
    await alert.getByText('“empty.txt” is empty.').waitFor();
    await choose('photo.txt', Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0, 0, 0, 13));
    await alert.getByText('“photo.txt” is not a text file.').waitFor();
    await choose('huge.txt', 'a '.repeat(600_000));
    await alert.getByText('“huge.txt” is 1.2 MB. This page searches texts of up to 1.0 MB').waitFor();
    expect(await box(page).inputValue()).toBe(sampleText); // unchanged

    await choose('utf16.txt', Buffer.from('\ufeffEin Café am Fluss.', 'utf16le'));
    await expect.poll(() => box(page).inputValue()).toBe('Ein Café am Fluss.');
    expect(await alert.count()).toBe(0);
    await choose('latin1.txt', Buffer.from('Ein Café am See.', 'latin1'));
    await expect.poll(() => box(page).inputValue()).toBe('Ein Café am See.');
    await page.locator('.passages mark').getByText('Ein Café am See.').waitFor();

    await page.getByRole('button', { name: 'Clear' }).click();
    await page.getByText('Paste a text or choose a file to search it.').waitFor();
    await expect.poll(() => page.locator('.passages li').count()).toBe(0);
    await box(page).fill('one line without any punctuation '.repeat(300));
    await allRead(page).waitFor();
    await page.locator('.passages li').first().waitFor();
    await box(page).fill('\ud800 \u0000 \u202e');
    await expect.poll(() => page.locator('.passages mark').first().innerText()).not.toContain('one line');
    expect(complaints).toEqual([]);
  });

  it('takes a dropped file', async () => {
    const { page } = await site.open('#meaning');
    await page.locator('.document').first().waitFor();
    await page.evaluate(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['A dropped sentence.'], 'notes.md'));
      document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true, cancelable: true }));
    });
    await expect.poll(() => box(page).inputValue()).toBe('A dropped sentence.');
  });
});
