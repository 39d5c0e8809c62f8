/** The page “Teach it”: compares what it shows with the classifier in Node, which learning-labels.test.ts tests. */
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { unzipSync } from 'fflate';
import { load as loadInference } from 'heed';
import { classify, load, type TrainingHeed } from 'heed/train';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Teacher } from '../../demo/src/engine/learning/classifier';
import { moments } from '../../demo/src/engine/learning/examples';
import { principalPlane, projectorOf } from '../../demo/src/engine/views';
import { samples } from '../../demo/src/pages/learning/labels/samples';
import { drawn, openSite, type Site, visit } from './site';

let site: Site;
let heed: TrainingHeed;
beforeAll(async () => {
  // One build on both sides, so that results have the same bits.
  [site, heed] = await Promise.all([openSite(), load({ build: 'simd128' })]);
});
afterAll(async () => {
  heed?.dispose();
  await site?.close();
});

const button = (page: Page, name: string) => page.getByRole('button', { name, exact: true });
describe('teach it your labels', () => {
  const [topics] = samples as [(typeof samples)[number]];
  const shares = (page: Page) => page.locator('.probabilities .score').allInnerTexts();
  const percents = (probabilities: number[]) => probabilities.map((share) => `${(100 * share).toFixed(0)} %`);

  async function openLabels(settings = '') {
    // Examples that fit no link stay in the browser's storage. Opening the demo would start a download of the model.
    const { page } = await site.open('', 'favicon.svg');
    await page.evaluate(() => localStorage.clear());
    const visited = await site.open(`#teach?build=simd128${settings}`);
    await visited.page.getByRole('heading', { name: 'Examples', exact: true }).waitFor();
    return visited;
  }

  async function newTeacher() {
    return new Teacher(heed, await heed.fromPretrained(undefined, { trainable: true, dropout: 0 }));
  }

  it('learns while one types, with the probabilities of the classifier in Node', async () => {
    const { page, complaints } = await openLabels();
    const teacher = await newTeacher();
    await teacher.teach(topics.examples);
    const expected = percents((await teacher.test(topics.test)).probabilities);
    await expect.poll(() => shares(page)).toEqual(expected);

    const { tokens } = await teacher.explain(topics.test);
    await page.locator('.mattered:not([aria-hidden]) li').first().waitFor();
    expect(await page.locator('.mattered li span').allInnerTexts()).toEqual(tokens);

    const added = { text: 'The tomatoes were sliced and salted.', label: 'cooking' };
    await page.getByLabel('Text 19').fill(added.text);
    await page.getByLabel('Label 19').fill(added.label);
    const tried = 'A plate of pasta.';
    await page.getByRole('textbox', { name: 'Try a text' }).fill(tried);
    const { labels, leftOut } = await teacher.teach([...topics.examples, added]);
    await expect.poll(() => shares(page)).toEqual(percents((await teacher.test(tried)).probabilities));
    const right = leftOut.filter((found, i) => labels[found!.label] === [...topics.examples, added][i]!.label).length;
    await page.getByText(`${right} of 19`, { exact: true }).waitFor();
    await expect.poll(() => page.url()).toContain('cooking%09The+tomatoes');
    expect(await page.locator('.dots circle[transform]').count()).toBe(20); // and the text that is tried
    expect(complaints).toEqual([]);
  });

  it('shows the texts on the map as they are after each epoch', async () => {
    const { page } = await openLabels();
    const teacher = await newTeacher();
    const { labels, path } = await teacher.teach(topics.examples);
    const tested = await teacher.test(topics.test);
    const rowsAt = (moment: number) => [...path[moment]!, tested.path[moment]!];
    const last = rowsAt(moments.length - 1);
    const inference = await loadInference({ build: 'simd128' });
    const project = projectorOf(last, principalPlane(inference, last).points);
    inference.dispose();
    const distances = (points: number[][]) =>
      points.flatMap(([x, y], i) => points.slice(0, i).map(([u, v]) => Math.hypot(x! - u!, y! - v!)));
    const places = () =>
      page.$$eval('.dots circle[transform]', (dots) =>
        dots.map((dot) =>
          dot
            .getAttribute('transform')!
            .match(/[-\d.]+/g)!
            .map(Number),
        ),
      );
    await expect.poll(async () => (await places()).length).toBe(19);
    const scale = Math.max(...distances(await places())) / Math.max(...distances(last.map(project)));
    for (const moment of [moments.length - 1, 5, 0]) {
      await page.getByRole('slider', { name: 'Epoch' }).fill(String(moment));
      const right = path[moment]!.filter(
        (logits, i) => labels[logits.indexOf(Math.max(...logits))] === topics.examples[i]!.label,
      ).length;
      await page.getByText(`After ${moments[moment]} epochs, ${right} of 18 examples get their label.`).waitFor();
      await drawn(page);
      const expected = distances(rowsAt(moment).map(project));
      for (const [i, distance] of distances(await places()).entries())
        expect(Math.abs(distance - scale * expected[i]!)).toBeLessThan(0.5); // pixels
    }
  });

  it('says beside the field what it cannot learn from', async () => {
    const { page } = await openLabels();
    await page.getByLabel('Text 1', { exact: true }).fill('');
    const text = page.getByLabel('Text 1', { exact: true });
    expect(await text.getAttribute('aria-invalid')).toBe('true');
    await page.getByText('Write a text, or remove the label.').waitFor();
    await page.getByLabel('Label 3', { exact: true }).fill('');
    await page.getByText('Give the text a label.').waitFor();
    await page.getByLabel('Text 19').fill(topics.examples[1]!.text);
    await page.getByLabel('Label 19').fill('travel');
    await page.getByText('Example 2 is the same text with the label “cooking”.').waitFor();
    await page.getByText('16 examples of 3 labels').waitFor();

    await button(page, 'Remove all').click();
    await page.getByText('Write some texts and their labels.').waitFor();
    await page.getByLabel('Text 1').fill('first');
    await page.getByLabel('Label 1').fill('a');
    await page.getByText('All examples have the label “a”.').waitFor();
    await page.getByLabel('Text 2').fill('word '.repeat(600));
    await page.getByLabel('Label 2').fill('b');
    await page.getByText('Longer than the model reads').waitFor();
    await page.getByText('Each label has only one example.').waitFor();
    expect(await page.getByLabel('Text 1').inputValue()).toBe('first');
  });

  it('shows no result that arrives after all examples were removed', async () => {
    const { page, context } = await visit(site, '', { serviceWorkers: 'block' });
    // Holds back what the worker is to test, and notes that its answer has arrived.
    await page.addInitScript(() => {
      const gate = { held: false, waiting: [] as (() => void)[], answered: false };
      Object.assign(globalThis, { gate });
      const { Worker: Plain } = globalThis;
      globalThis.Worker = class extends Plain {
        override postMessage(message: { id?: number; method?: string }, ...rest: unknown[]) {
          const send = () => super.postMessage(message, ...(rest as []));
          if (!gate.held || message.method !== 'test') return send();
          this.addEventListener('message', ({ data }) => {
            if (data.id === message.id) gate.answered = true;
          });
          gate.waiting.push(send);
        }
      };
    });
    type Gate = { gate: { held: boolean; waiting: (() => void)[]; answered: boolean } };
    await page.goto(`${site.url}?again#teach?build=simd128`);
    await page.locator('.probabilities li').first().waitFor();
    await page.evaluate(() => {
      (globalThis as unknown as Gate).gate.held = true;
    });
    await page.getByRole('textbox', { name: 'Try a text' }).fill('A plate of pasta.');
    await page.waitForFunction(() => (globalThis as unknown as Gate).gate.waiting.length > 0);
    await button(page, 'Remove all').click();
    await expect.poll(() => page.locator('.probabilities').count()).toBe(0);
    await page.evaluate(() => {
      for (const send of (globalThis as unknown as Gate).gate.waiting) send();
    });
    await page.waitForFunction(() => (globalThis as unknown as Gate).gate.answered);
    await drawn(page);
    expect(await page.locator('.probabilities').count()).toBe(0);
    await page.getByText('Write some texts and their labels.').waitFor();
    await context.close();
  });

  it('adds the examples of a dropped file, and says what is wrong with one', async () => {
    const { page } = await openLabels('&examples=none');
    const drop = (name: string, contents: string) =>
      page.evaluate(
        ([fileName, text]) => {
          const dataTransfer = new DataTransfer();
          dataTransfer.items.add(new File([text!], fileName!));
          document.body.dispatchEvent(new DragEvent('drop', { dataTransfer, bubbles: true }));
        },
        [name, contents],
      );
    await drop('labels.csv', 'text,label\n"Bread, fresh",food\nA loud drum,music\n');
    await page.getByText('2 examples added from labels.csv.').waitFor();
    expect(await page.getByLabel('Text 1').inputValue()).toBe('Bread, fresh');
    await drop('broken.jsonl', '{"text":"a"}');
    await page.getByText('broken.jsonl was not added. Line 1 should have').waitFor();
    await drop('more.jsonl', '{"text":"An old violin","label":"music"}');
    await page.getByText('3 examples of 2 labels').waitFor();
  });

  it('keeps examples that are too long for a link', async () => {
    const { page, context } = await visit(site, '#teach?examples=none', { serviceWorkers: 'block' });
    const rows = Array.from({ length: 120 }, (_, i) =>
      JSON.stringify({ text: `${'long '.repeat(15)}${i}`, label: `l${i % 2}` }),
    );
    await page.locator('input[type=file]').setInputFiles({
      name: 'long.jsonl',
      mimeType: 'application/jsonl',
      buffer: Buffer.from(rows.join('\n')),
    });
    await page.getByText('120 examples of 2 labels').waitFor();
    await page.getByRole('link', { name: 'Compute' }).click();
    await page.getByRole('heading', { name: 'Compute' }).waitFor();
    await page.goto(`${site.url}?again#teach`);
    await page.getByText('120 examples of 2 labels').waitFor();
    await context.close();
  });

  it('downloads a folder that heed opens, with code to use it', async () => {
    const { page } = await openLabels();
    await page.locator('.probabilities li').first().waitFor();
    const [saved] = await Promise.all([page.waitForEvent('download'), button(page, 'Download my-labels.zip').click()]);
    const files = unzipSync(await readFile(await saved.path()));
    const model = await heed.fromPretrained(files);
    expect(model.config.labels).toEqual(['cooking', 'money', 'travel']);
    const [[best]] = (await classify(model, [topics.test])) as [[{ label: string; score: number }]];
    const shown = await page.locator('.probabilities .best').innerText();
    expect(shown).toContain(best.label);
    expect(shown).toContain(`${(100 * best.score).toFixed(0)} %`);
    const code = await page.locator('.code').innerText();
    expect(code).toContain("fromPretrained('./my-labels/')");
    expect(code.trim().split('\n').length).toBeLessThanOrEqual(10);

    // “Your model” opens the folder and shows its labels.
    const folder = await mkdtemp(join(tmpdir(), 'heed-'));
    for (const [name, bytes] of Object.entries(files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true });
      await writeFile(join(folder, name), bytes);
    }
    const texts = topics.examples.slice(5, 8).map(({ text }) => text);
    const expected = await classify(model, texts, { topK: 1 });
    await page.goto(
      `${site.url}?own#meaning?model=own&${new URLSearchParams({ text: texts.join('\n'), build: 'simd128' })}`,
    );
    await page.locator('input[type=file]').setInputFiles(folder);
    await page.locator('#own-labels td').first().waitFor();
    expect(await page.locator('#own-labels tr').allInnerTexts()).toEqual(
      texts.map((text, i) => `${text}\t${expected[i]![0]!.label}\t${(100 * expected[i]![0]!.score).toFixed(0)} %`),
    );
  });
});
