/** The course as notebooks: every block of code is a cell, in order, with the packages' names for the kernel. */
import { expect, test } from 'vitest';
import { cellsOf, chapters, jupyter, observable } from '../../tools/course.mjs';

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
  const named = blocks.map((code) => code.replace(/from 'heed/g, "from 'npm:heed"));

  const notebook = JSON.parse(jupyter(text));
  expect(notebook).toMatchObject({ nbformat: 4, nbformat_minor: 5, metadata: { kernelspec: { name: 'deno' } } });
  const sources = (type: string) =>
    notebook.cells
      .filter((cell: { cell_type: string }) => cell.cell_type === type)
      .map(({ source }: { source: string[] }) => source.join(''));
  expect(sources('code')).toEqual(named);
  expect(new Set(notebook.cells.map(({ id }: { id: string }) => id)).size).toBe(notebook.cells.length);
  const texts = sources('markdown').join('\n');
  expect(texts).toContain('data:image/svg+xml;base64,'); // figures are in the notebook
  expect(texts).not.toMatch(/\]\((\.\.\/|figures\/|[\w-]+\.md)/); // and no link leads to a file that is not there

  const page = observable(text);
  expect([...page.matchAll(/^ {2}<script id="\d+" type="module">\n(.*?)\n {2}<\/script>$/gms)].map(([, code]) => code!.replace(/^ {4}/gm, ''))).toEqual(named); // biome-ignore format: one expectation
});
