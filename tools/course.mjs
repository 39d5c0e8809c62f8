// `npm run course`: the course of docs/course/ as Jupyter notebooks (for Deno's kernel), as Observable notebooks, and as
// one page for printing, in build/course/.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root, runMain, say } from './console.mjs';
import { ensurePackages } from './setup.mjs';

const folder = join(root, 'docs/course');
const out = join(root, 'build/course');

/** The chapters in their order, the index first: name and text. */
export function chapters() {
  const names = fs.readdirSync(folder).filter((name) => name.endsWith('.md'));
  return names
    .sort((a, b) => Number(b === 'README.md') - Number(a === 'README.md') || (a < b ? -1 : 1))
    .map((name) => ({
      name: name === 'README.md' ? 'index' : name.slice(0, -3),
      text: fs.readFileSync(join(folder, name), 'utf8'),
    }));
}

/** Divides a chapter into cells: texts and code. What the code prints is left out, since readers run it. */
export function cellsOf(text) {
  const parts = text.split(/^(```js\n.*?^```\n(?:\n```text\n.*?^```\n)?)/ms);
  return parts
    .map((part) => {
      const [, code] = /^```js\n(.*?)^```\n/ms.exec(part) ?? [];
      return code === undefined ? { type: 'text', source: part.trim() } : { type: 'code', source: code.trim() };
    })
    .filter(({ source }) => source !== '');
}

/** Links to other chapters and pages lead to the documentation's site; figures are part of the text. */
function linked(text, extension) {
  return text
    .replace(/!\[([^\]]*)\]\((figures\/[\w-]+\.svg)\)/g, (_, title, file) => {
      const svg = Buffer.from(fs.readFileSync(join(folder, file))).toString('base64');
      return `![${title}](data:image/svg+xml;base64,${svg})`;
    })
    .replace(/\]\((\d\d-[\w-]+)\.md(#[\w-]+)?\)/g, `]($1.${extension})`)
    .replaceAll('](README.md', `](index.${extension}`)
    .replace(/\]\(\.\.\/([\w-]+)\.md/g, '](https://github.com/heed/heed/blob/main/docs/$1.md');
}

/** A chapter as a notebook in Jupyter's format 4.5. Deno's kernel imports packages of npm by `npm:`. */
export function jupyter(text) {
  const lines = (source) => source.split(/(?<=\n)/);
  const cells = cellsOf(text).map(({ type, source }, i) =>
    type === 'text'
      ? { cell_type: 'markdown', id: `cell-${i}`, metadata: {}, source: lines(linked(source, 'ipynb')) }
      : {
          cell_type: 'code',
          id: `cell-${i}`,
          metadata: {},
          execution_count: null,
          outputs: [],
          source: lines(source.replace(/from '(heed[\w/]*)'/g, "from 'npm:$1'")),
        },
  );
  const kernelspec = { display_name: 'Deno', language: 'typescript', name: 'deno' };
  return `${JSON.stringify({ cells, metadata: { kernelspec, language_info: { name: 'typescript' } }, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`;
}

/** A chapter as an Observable notebook (notebook kit): an HTML file with a script element per cell. */
export function observable(text) {
  const [, title] = /^# (.*)$/m.exec(text);
  const cells = cellsOf(text).map(({ type, source }, i) => {
    const body = type === 'text' ? linked(source, 'html') : source.replace(/from '(heed[\w/]*)'/g, "from 'npm:$1'");
    const kind = type === 'text' ? 'text/markdown' : 'module';
    return `  <script id="${i + 1}" type="${kind}">\n${body.replaceAll('</script', '<\\/script').replace(/^/gm, '    ')}\n  </script>`;
  });
  return `<!doctype html>\n<notebook>\n  <title>${title}</title>\n${cells.join('\n')}\n</notebook>\n`;
}

const style = `
body { font: 11pt/1.45 Georgia, serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { break-before: page; } h1:first-of-type { break-before: auto; }
pre { font-size: 8.5pt; background: #f5f5f5; padding: 0.5rem; white-space: pre-wrap; break-inside: avoid; }
img { max-width: 100%; } table { border-collapse: collapse; } td, th { border: 1px solid #bbb; padding: 0.2rem 0.5rem; }
math[display="block"] { margin: 0.8rem 0; }`;

/** All chapters as one HTML page, with solutions unfolded and formulas in MathML. */
export async function page() {
  await ensurePackages('tools/checks');
  const { href } = pathToFileURL(join(root, 'tools/checks/node_modules/markdown-it/index.mjs'));
  const { default: MarkdownIt } = await import(href);
  const { formulas } = await import('./site/formulas.mjs'); // after its packages are installed
  const markdown = new MarkdownIt({ html: true }).use(formulas, { output: 'mathml' });
  markdown.validateLink = () => true; // it would refuse figures as data URLs
  const body = chapters().map(({ text }) =>
    markdown.render(linked(text, 'html').replaceAll('<details>', '<details open>')),
  );
  const html = body.join('\n').replace(/href="(\d\d-[\w-]+|index)\.html[^"]*"/g, '');
  return `<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>heed: a course</title>\n<style>${style}</style>\n${html}\n</html>\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  await runMain(async () => {
    fs.rmSync(out, { recursive: true, force: true });
    fs.mkdirSync(join(out, 'observable'), { recursive: true });
    for (const { name, text } of chapters()) {
      fs.writeFileSync(join(out, `${name}.ipynb`), jupyter(text));
      fs.writeFileSync(join(out, 'observable', `${name}.html`), observable(text));
    }
    fs.writeFileSync(join(out, 'course.html'), await page());
    say('the course is in build/course/: notebooks for Jupyter and Observable, and course.html for printing');
  });
