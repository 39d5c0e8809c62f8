/** The course as notebooks and slides, and the program that checks its tasks. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { format } from 'node:util';
import { expect, test } from 'vitest';
import { words } from '../../demo/src/pages/see/words';
import { cellsOf, chapters, foldedCellsOf, jupyter, observable, slidesOf } from '../../tools/course.mjs';

const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const withCode = chapters().filter(({ name }) => name !== 'index');

test('the chapters are in order, after the index', () => {
  const names = chapters().map(({ name }) => name);
  expect(names[0]).toBe('index');
  expect(names.slice(1).map((name) => Number(name.slice(0, 2)))).toEqual(names.slice(1).map((_, i) => i + 1));
  expect(names.length).toBeGreaterThan(10);
});

test.each(withCode)('$name', ({ text }) => {
  const blocks = [...text.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code!.trim());
  expect(
    cellsOf(text)
      .filter(({ type }) => type === 'code')
      .map(({ source }) => source),
  ).toEqual(blocks);

  const notebook = JSON.parse(jupyter(text));
  expect(notebook).toMatchObject({ nbformat: 4, nbformat_minor: 5, metadata: { kernelspec: { name: 'deno' } } });
  const sources = (type: string) =>
    notebook.cells
      .filter((cell: { cell_type: string }) => cell.cell_type === type)
      .map(({ source }: { source: string[] }) => source.join(''));
  const folded = foldedCellsOf(text);
  const solutions = folded.filter(({ type }) => type === 'solution');
  const open = folded.filter(({ type }) => type === 'code').map(({ source }) => source);
  const asInNotebook = open.map((code) => code.replace(/from 'heed([^']*)'/g, `from 'npm:heed@${version}$1'`));
  const answers = solutions.map(() => '// your answer');
  expect(sources('code')).toEqual([...asInNotebook, ...answers]);
  expect(new Set(notebook.cells.map(({ id }: { id: string }) => id)).size).toBe(notebook.cells.length);
  const texts = sources('markdown').join('\n');
  expect(texts).toContain('data:image/svg+xml;base64,'); // figures are in the notebook
  expect(texts).not.toMatch(/\]\((\.\.\/|figures\/|[\w-]+\.md)/); // and no link leads to a file that is not there
  // A solution is folded as a whole, in one cell.
  const details = sources('markdown').filter((source: string) => source.includes('<details>'));
  expect(details).toHaveLength(solutions.length);
  for (const source of details) expect(source).toMatch(/^<details><summary>Solution<\/summary>\n.*<\/details>$/s);

  const page = observable(text);
  const cells = [...page.matchAll(/^ {2}<script id="\d+" type="([\w/]+)"(?: pinned="")?>\n(.*?)\n {2}<\/script>$/gms)];
  const modules = cells.filter(([, type]) => type === 'module').map(([, , code]) => code!);
  expect(modules).toHaveLength(blocks.length + 1);
  expect(modules.join('\n')).not.toMatch(/console\.log|from 'heed/); // what is printed is shown in the page
  const markdown = cells.filter(([, type]) => type === 'text/markdown').map(([, , source]) => source!);
  expect(markdown.join('\n')).toMatch(/\$\{tex/);
  expect(markdown.join('\n')).not.toContain('$$');
  expect(markdown.join('\n')).not.toContain('](data:'); // the kit shows no such images

  const slides = slidesOf(text);
  expect(slides.length).toBeGreaterThan(10);
  for (const slide of slides) expect(slide).toMatch(/^##? .+\n\n[\s\S]+/);
  expect(slides.join('\n')).toContain('$$');
  for (const block of blocks) expect(slides.join('\n')).toContain(block);
});

test('the plan of a term adds up the minutes of its chapters, and that of an hour has 60', () => {
  const plan = readFileSync(new URL('../../docs/course/teaching.md', import.meta.url), 'utf8');
  const minutesOf = ({ text }: { text: string }) => Number(/\*\*Time:\*\* (\d+) minutes/.exec(text)![1]);
  const weeks = [...plan.matchAll(/^\| \d+ \| ([\d, ]+) \| (\d+) \|/gm)];
  for (const [, numbers, minutes] of weeks)
    expect(
      numbers!.split(', ').reduce((sum, number) => sum + minutesOf(withCode[Number(number) - 1]!), 0),
      `chapters ${numbers}`,
    ).toBe(Number(minutes));
  expect(weeks.flatMap(([, numbers]) => numbers!.split(', '))).toEqual(withCode.map((_, i) => String(i + 1)));
  const parts = [...plan.matchAll(/^\| (\d+)–(\d+) \|/gm)].map(([, from, to]) => [Number(from), Number(to)]);
  expect(parts.map(([from]) => from)).toEqual([0, ...parts.slice(0, -1).map(([, to]) => to)]);
  expect(parts.at(-1)![1]).toBe(60);
});

test('the star of chapter 4 is an example of the demo, which shows it before its model has arrived', () => {
  const { sentences } = words.find(({ word }) => word === 'star')!;
  const plan = readFileSync(new URL('../../docs/course/teaching.md', import.meta.url), 'utf8');
  for (const text of [withCode[3]!.text, plan]) {
    const [, query] = /heed\.github\.io\/heed\/#see\?([^)]*)\)/.exec(text)!;
    const given = new URLSearchParams(query);
    expect(['a', 'b', 'c'].map((name) => given.get(name))).toEqual(sentences);
    expect(given.get('word')).toBe('star');
  }
});

/** Runs the code of a notebook, and returns what it prints. `imports` are the statements' form there. */
async function run(code: string, imports: RegExp, print: string): Promise<string> {
  const lines: string[] = [];
  const dist = (entry = 'index') => new URL(`../../dist/${entry === '' ? 'index' : entry}.js`, import.meta.url).href;
  const script = code
    .replace(
      imports,
      (_, names: string, entry?: string) =>
        `const ${names.replaceAll(' as ', ': ')} = await importing('${dist(entry)}');`,
    )
    .replaceAll(print, 'print(');
  const main = new Function('importing', 'print', `return (async () => {${script}\n})()`);
  await main(
    (url: string) => import(url),
    (...values: unknown[]) => lines.push(format(...values)),
  );
  return lines.map((line) => `${line}\n`).join('');
}

// The last chapters train models; tests/web/docs.test.ts runs the same code.
test.each(withCode.filter(({ name }) => !/^(11|13|14)/.test(name)))(
  '$name: notebooks run and print what the page prints',
  async ({ text }) => {
    const printed = (part: string) =>
      [...part.matchAll(/^```js\n.*?^```\n\n```text\n(.*?)^```$/gms)].map(([, output]) => output!).join('');
    const page = observable(text);
    const modules = [...page.matchAll(/type="module"(?: pinned="")?>\n(.*?)\n {2}<\/script>$/gms)].map(
      ([, code]) => code!,
    );
    const cdn = /import (\{.*\}) from 'https:\/\/[^']*\/dist\/([\w-]+)\.js';/g;
    expect(await run(modules.slice(0, -1).join('\n'), cdn, 'print(display, ')).toBe(printed(text));

    const { cells } = JSON.parse(jupyter(text));
    const codes = cells
      .filter((cell: { cell_type: string }) => cell.cell_type === 'code')
      .map(({ source }: { source: string[] }) => source.join(''));
    const deno = new RegExp(`import (\\{.*\\}) from 'npm:heed@${version}/?([\\w-]*)';`, 'g');
    const open = text.replaceAll(/^<details>.*?^<\/details>$/gms, '');
    expect(await run(codes.join('\n'), deno, 'console.log(')).toBe(printed(open));
  },
);

test.each(withCode)('$name: Keras prints numbers that heed prints', ({ text }) => {
  const [, code, printed] = /^```python\n(.*?)^```\n\n```text\n(.*?)^```$/ms.exec(text)!;
  expect(code!.trim().split('\n').length).toBeLessThanOrEqual(15);
  const numbersOf = (output: string) => (output.match(/-?\d+(\.\d+)?/g) ?? []).map(Number);
  const own = [...text.matchAll(/^```js\n.*?^```\n\n```text\n(.*?)^```$/gms)].flatMap(([, output]) =>
    numbersOf(output!),
  );
  const numbers = numbersOf(printed!);
  expect(numbers.length).toBeGreaterThan(0);
  expect(numbers.filter((number) => !own.includes(number))).toEqual([]);
});

const check = (file: string) => {
  const folder = fileURLToPath(new URL('../../docs/course/tasks', import.meta.url));
  const path = fileURLToPath(new URL(file, import.meta.url));
  const { stdout, status } = spawnSync(process.execPath, ['check.mjs', path], { cwd: folder, encoding: 'utf8' });
  return { lines: stdout.trim().split('\n'), status };
};

test('the check of the tasks accepts right functions, names tasks that are not begun, and shows what is wrong', () => {
  const solved = check('course-solutions.mjs');
  expect(solved.lines.at(-1)).toBe('12 of 12 functions are right');
  expect(solved.status).toBe(0);
  const begun = check('../../docs/course/tasks/start.mjs');
  expect(begun.lines.slice(0, -1).every((line) => line.endsWith(': not begun'))).toBe(true);
  expect(begun.lines).toHaveLength(13);
  const folder = mkdtempSync(join(tmpdir(), 'heed-tasks-'));
  const wrong = join(folder, 'wrong.mjs');
  writeFileSync(
    wrong,
    'export const softmax = (scores) => scores.map(() => 1);\nexport const linear = () => null.x;\n',
  );
  const { lines, status } = check(pathToFileURL(wrong).href);
  rmSync(folder, { recursive: true });
  expect(status).toBe(1);
  expect(lines).toContain('softmax: failed');
  expect(lines).toContain('  expected [0.090031,0.24473,0.66524]');
  expect(lines.join('\n')).toMatch(/got {6}"TypeError: /);
});
