/** The page “Compute” shows what the library computes and highlights related cells in all matrices. */
import { type Heed, load } from 'heed';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { largestDifference, openSite, type Site, shownMatrix, shownWithin } from './site';

let site: Site;
let heed: Heed;
beforeAll(async () => {
  [site, heed] = await Promise.all([openSite(), load()]);
});
afterAll(() => site?.close());

type Matrix = number[][];
const transpose = (rows: Matrix): Matrix => rows[0]!.map((_, j) => rows.map((row) => row[j]!));

/** One attention head with X W projections, computed from the weights that the page shows. */
function attend(x: Matrix, y: Matrix, [wq, wk, wv]: Matrix[], options: object = {}) {
  const project = (rows: Matrix, weight: Matrix) => heed.linear(rows, { weight: transpose(weight) });
  const [query, key, value] = [project(x, wq!), project(y, wk!), project(y, wv!)];
  const { output, weights } = heed.attention(query, key, value, { ...options, returnWeights: true });
  return { key: key.toArray() as Matrix, output: output.toArray() as Matrix, weights: weights.toArray() as Matrix };
}

const open = async (hash: string) => {
  const { page, complaints } = await site.open(hash);
  await page.waitForSelector('#output');
  const weights = await Promise.all(['wq', 'wk', 'wv'].map((id) => shownMatrix(page, id)));
  return { page, complaints, weights, x: await shownMatrix(page, 'x') };
};

describe('the page “Compute”', () => {
  it('shows the library’s attention for four words', async () => {
    const { page, x, weights, complaints } = await open('#compute?all=1');
    expect(x).toEqual([
      [1, 0, 0],
      [0, 1, 0],
      [1, 1, 0],
      [0, 0, 1],
    ]);
    const expected = attend(x, x, weights);
    expect(largestDifference(await shownMatrix(page, 'k'), expected.key)).toBeLessThan(shownWithin);
    expect(largestDifference(await shownMatrix(page, 'weights'), expected.weights)).toBeLessThan(shownWithin);
    expect(largestDifference(await shownMatrix(page, 'output'), expected.output)).toBeLessThan(shownWithin);
    expect(complaints).toEqual([]);
  });

  it('computes again when a number is edited', async () => {
    const { page, x, weights } = await open('#compute?all=1');
    const before = await shownMatrix(page, 'output');
    await page.locator('#x input').first().fill('-2.5');
    x[0]![0] = -2.5;
    const expected = attend(x, x, weights);
    expect(largestDifference(before, expected.output)).toBeGreaterThan(0.05);
    await expect
      .poll(async () => largestDifference(await shownMatrix(page, 'output'), expected.output))
      .toBeLessThan(shownWithin);
  });

  it.each([
    ['scale=2', { scale: 2 }],
    ['causal=1', { causal: true }],
    ['window=1', { window: 1 }],
    ['padding=2', { mask: [[1, 1, 0, 0]] }],
    [
      'mask=1,1,1,0;0,1,1,1;0,0,0,0;1,1,1,1',
      {
        mask: [
          [1, 1, 1, 0],
          [0, 1, 1, 1],
          [0, 0, 0, 0],
          [1, 1, 1, 1],
        ],
      },
    ],
  ])('applies %s', async (setting, options) => {
    const { page, x, weights } = await open(`#compute?all=1&${setting}`);
    const expected = attend(x, x, weights, options);
    expect(largestDifference(await shownMatrix(page, 'weights'), expected.weights)).toBeLessThan(shownWithin);
    expect(largestDifference(await shownMatrix(page, 'output'), expected.output)).toBeLessThan(shownWithin);
  });

  it('keeps the output when keys and values are shuffled together', async () => {
    const { page } = await open('#compute?all=1');
    const before = await shownMatrix(page, 'output');
    const weights = await shownMatrix(page, 'weights');
    await page.getByRole('button', { name: 'Shuffled keys' }).click();
    await expect
      .poll(async () => shownMatrix(page, 'weights'))
      .toEqual(weights.map((row) => [2, 0, 3, 1].map((from) => row[from])));
    expect(await shownMatrix(page, 'output')).toEqual(before);
  });

  it('computes cross-attention between sequences of different length and width', async () => {
    const { page, x, weights } = await open('#compute?all=1');
    await page.getByRole('button', { name: 'Audio and text' }).click();
    await page.waitForSelector('#y');
    const y = await shownMatrix(page, 'y');
    expect([y.length, y[0]!.length]).toEqual([6, 4]);
    const crossed = await Promise.all(['wq', 'wk', 'wv'].map((id) => shownMatrix(page, id)));
    expect(crossed[1]).not.toEqual(weights[1]);
    const expected = attend(await shownMatrix(page, 'x'), y, crossed);
    expect(largestDifference(await shownMatrix(page, 'output'), expected.output)).toBeLessThan(shownWithin);
    expect(x.length).toBe(4);
  });

  it('adds and appends positions, normalizes, and mixes heads', async () => {
    const { page, x } = await open('#compute?all=1&positions=add&norm=1&heads=2&seed=9');
    const placed = (heed.positionalEncoding(4, 3).toArray() as Matrix).map((row, i) =>
      row.map((entry, j) => entry + x[i]![j]!),
    );
    const prepared = heed.layerNorm(placed, { weight: [1, 1, 1], bias: [0, 0, 0] }).toArray() as Matrix;
    expect(largestDifference(await shownMatrix(page, 'prepared'), prepared)).toBeLessThan(shownWithin);
    const encoding = heed.positionalEncoding(32, 16);
    const products = (heed.linear(encoding, { weight: encoding }).toArray() as Matrix)[0]!;
    expect(await page.getByRole('img', { name: 'Dot products' }).getAttribute('aria-label')).toContain(
      `${products[0]!.toFixed(1)} with itself, ${products[1]!.toFixed(1)} with its neighbour, ${products[31]!.toFixed(1)} with the last`,
    );
    await expect.poll(() => page.locator('.plots').first().locator('rect').count()).toBe(32 * 16);
    const [joined, mixer] = [await shownMatrix(page, 'joined'), await shownMatrix(page, 'wo')];
    const mixed = heed.linear(joined, { weight: transpose(mixer) }).toArray() as Matrix;
    // The heads are shown rounded, and four entries are summed with weights up to 3.
    expect(largestDifference(await shownMatrix(page, 'mixed'), mixed)).toBeLessThan(0.05);
    await page.getByText('appended').click();
    await expect.poll(async () => (await shownMatrix(page, 'prepared'))[0]!.length).toBe(7);
  });

  it('draws dropout again: dropped weights are zero, the others are scaled', async () => {
    const { page } = await open('#compute?all=1&dropout=0.5');
    const weights = await shownMatrix(page, 'weights');
    const check = async () => {
      const dropped = await shownMatrix(page, 'dropped');
      const wrong = dropped.flatMap((row, i) =>
        row.filter((entry, j) => entry !== 0 && Math.abs(entry - 2 * weights[i]![j]!) > 3 * shownWithin),
      );
      expect(wrong).toEqual([]);
      return dropped;
    };
    const first = await check();
    await page.getByRole('button', { name: 'Draw again' }).click();
    await expect.poll(async () => shownMatrix(page, 'dropped')).not.toEqual(first);
    await check();
  });

  it('highlights related cells, also with the keyboard, and describes them in words', async () => {
    const { page } = await open('#compute?all=1');
    await page.locator('#weights td[data-row="2"][data-column="1"]').focus();
    await page.keyboard.press('ArrowLeft');
    const weights = await shownMatrix(page, 'weights');
    const lit = (id: string) => page.locator(`#${id} tbody tr.lit th`).allInnerTexts();
    expect(await lit('q')).toEqual(['apple']);
    expect(await lit('k')).toEqual(['red']);
    expect(await lit('v')).toEqual(['red']);
    expect(await lit('output')).toEqual(['apple']);
    const said = await page.locator('#cell').innerText();
    expect(said).toContain('“apple” attends to “red”');
    expect(Number(/Weight ([\d.]+)/.exec(said)?.[1])).toBe(weights[2]![0]!);
  });

  it('shows the arithmetic of each step for the focused word', async () => {
    const { page, x, weights } = await open('#compute?all=1&at=query:1,key:2');
    const [wq, wk, wv] = weights as [Matrix, Matrix, Matrix];
    const times = (rows: Matrix, weight: Matrix) =>
      heed.linear(rows, { weight: transpose(weight) }).toArray() as Matrix;
    const [query, key, value] = [times(x, wq), times(x, wk), times(x, wv)];
    const shares = attend(x, x, weights).weights[1]!;
    const score = query[1]!.reduce((sum, entry, i) => sum + entry * key[2]![i]!, 0);
    const near = (found: number[], expected: number[]) =>
      expect(largestDifference([found], [expected])).toBeLessThan(shownWithin);
    const numbers = (text: string) =>
      [...text.matchAll(/−?\d+(\.\d+)?/g)].map(([found]) => Number(found.replace('−', '-')));
    const rows = (await page.locator('#products tr').allInnerTexts()).map((text) =>
      numbers(text.slice(text.indexOf('\t'))),
    );
    near(rows[0]!, query[1]!);
    near(rows[1]!, key[2]!);
    near(
      rows[2]!,
      query[1]!.map((entry, i) => entry * key[2]![i]!),
    );
    near(numbers(await page.locator('#score').innerText()).slice(-1), [score / Math.SQRT2]);
    near(numbers(await page.locator('#softmax').innerText()).slice(-1), [shares[2]!]);
    near((await page.locator('#average .share').allInnerTexts()).map(Number), shares);
    near(
      numbers(await page.locator('#average tfoot td').innerText()),
      value[0]!.map((_, j) => shares.reduce((sum, share, i) => sum + share * value[i]![j]!, 0)),
    );
  });

  it('edits the mask with the mouse, the keyboard and touch', async () => {
    const { page, x, weights } = await open('#compute?all=1');
    const cell = (row: number, column: number) => page.locator(`#mask td[data-row="${row}"][data-column="${column}"]`);
    const allowed = x.map(() => [1, 1, 1, 1]);
    const applied = () =>
      expect
        .poll(async () =>
          largestDifference(await shownMatrix(page, 'weights'), attend(x, x, weights, { mask: allowed }).weights),
        )
        .toBeLessThan(shownWithin);
    await cell(0, 1).hover();
    await page.mouse.down();
    for (const column of [2, 3]) await cell(0, column).hover();
    await page.mouse.up();
    allowed[0] = [1, 0, 0, 0];
    await applied();
    await cell(3, 0).locator('button').focus();
    await page.keyboard.press('Space');
    allowed[3] = [0, 1, 1, 1];
    await applied();
    await cell(0, 3).locator('button').dispatchEvent('click');
    allowed[0] = [1, 0, 0, 1];
    await applied();
    await page.getByRole('button', { name: 'Reset the mask' }).click();
    allowed[0] = allowed[3] = [1, 1, 1, 1];
    await applied();
  });

  it('shows in each example what its text describes', async () => {
    const { page, x } = await open('#compute?all=1');
    /** Chooses an example and waits for its result, which is shown together with its input. */
    const choose = async (name: string, x: Matrix) => {
      await page.getByRole('button', { name, exact: true }).click();
      await expect.poll(() => shownMatrix(page, 'x')).toEqual(x);
    };
    const [red, round, apple, sky] = x as [number[], number[], number[], number[]];
    const peaks = async () => (await shownMatrix(page, 'weights')).map((row) => Math.max(...row));
    const plain = await shownMatrix(page, 'output');
    await choose('Reversed words', [sky, apple, round, red]);
    expect(await shownMatrix(page, 'output')).toEqual([...plain].reverse());
    await choose('Positions', [red, apple, red, sky]);
    const apart = async () => {
      const output = await shownMatrix(page, 'output');
      return largestDifference([output[0]!], [output[2]!]);
    };
    expect(await apart()).toBeGreaterThan(1);
    await page.getByText('none', { exact: true }).click();
    await expect.poll(apart).toBe(0);
    await choose('Without 1/√d', [red, round, apple, sky]);
    expect(Math.min(...(await peaks()))).toBeGreaterThan(0.9);
    await page.getByLabel('Scale by 1/√d').check();
    await expect.poll(async () => Math.max(...(await peaks()))).toBeLessThan(0.6);
    await choose('Audio and text', [red, round, sky]);
    const [hel, lo] = await shownMatrix(page, 'weights');
    expect(hel![1]! + hel![2]!).toBeGreaterThan(0.8);
    expect(lo![3]! + lo![4]!).toBeGreaterThan(0.6);
    await choose('Padding', [red, round, apple, sky, [0, 0, 0], [0, 0, 0]]);
    const padded = await shownMatrix(page, 'output');
    const queries = await shownMatrix(page, 'q');
    await page.locator('#x input').last().fill('50');
    // The word's own query changes when the result has been computed again.
    await expect.poll(async () => (await shownMatrix(page, 'q')).at(-1)).not.toEqual(queries.at(-1));
    expect((await shownMatrix(page, 'output')).slice(0, 4)).toEqual(padded.slice(0, 4));
  });

  it('animates shuffled columns unless the reader prefers reduced motion', async () => {
    for (const [reducedMotion, glides] of [
      ['no-preference', true],
      ['reduce', false],
    ] as const) {
      const { page } = await open('#compute?all=1');
      await page.emulateMedia({ reducedMotion });
      await page.evaluate(() => {
        const { animate } = Element.prototype;
        Element.prototype.animate = function (...how) {
          this.closest('table')!.dataset.glided = '1';
          return animate.apply(this, how);
        };
      });
      const weights = await shownMatrix(page, 'weights');
      await page.getByRole('button', { name: 'Shuffled keys' }).click();
      // Animations start in the same task that draws the cells.
      await expect.poll(() => shownMatrix(page, 'weights')).not.toEqual(weights);
      expect(await page.locator('#weights table[data-glided]').count()).toBe(glides ? 1 : 0);
    }
  });

  it('shows labels and numbers of the same input at any time', async () => {
    const { page } = await open('#compute?all=1');
    const shown = await page.evaluate(async () => {
      const table = document.querySelector('#output table') as HTMLElement;
      const states = new Set([table.innerText]);
      const observer = new MutationObserver(() => states.add(table.innerText));
      observer.observe(table, { subtree: true, childList: true, characterData: true });
      const changed = (text: string) =>
        new Promise<void>((resolve) => {
          const check = () => (table.innerText === text ? requestAnimationFrame(check) : resolve());
          check();
        });
      const before = table.innerText;
      [...document.querySelectorAll('button')].find((button) => button.textContent === 'Reversed words')!.click();
      await changed(before);
      return [...states].map((text) => text.split('\n').slice(1));
    });
    const plain = shown[0]!;
    await expect.poll(async () => (await page.locator('#output tbody tr').allInnerTexts())[0]).toContain('sky');
    const rows = (lines: string[]) => lines.map((line) => line.trim()).sort();
    // The example reverses the words, and each word keeps its output.
    for (const state of shown) expect(rows(state)).toEqual(rows(plain));
  });

  it('keeps every state in the link', async () => {
    const { page } = await open('#compute?all=1');
    await page.getByLabel('Causal').check();
    await page.locator('#wq input').first().fill('0.7');
    await page.locator('#weights td[data-row="3"][data-column="2"]').click();
    await page.mouse.move(0, 0);
    // The address changes after a delay.
    await expect.poll(() => decodeURIComponent(page.url())).toContain('at=query:3,key:2');
    const shown = await shownMatrix(page, 'output');
    await open(new URL(page.url()).hash);
    expect(await shownMatrix(page, 'output')).toEqual(shown);
    expect(await page.getByLabel('Causal').isChecked()).toBe(true);
    expect(await page.locator('#cell').innerText()).toContain('“sky” attends to “apple”');
  });

  it('names the rows of a link that has fewer names than rows', async () => {
    const { page, complaints } = await open('#compute?all=1&y=1,2;3,4&x=1;2&words=a');
    expect((await shownMatrix(page, 'weights')).length).toBe(1);
    expect(await page.getByRole('alert').count()).toBe(0);
    expect(await page.locator('main').innerText()).not.toMatch(/undefined|NaN|null/);
    expect(complaints).toEqual([]);
  });
});
