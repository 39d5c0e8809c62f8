// `npm run course`: the course of docs/course/ as Jupyter notebooks (for Deno's kernel), as Observable notebooks, as slides and as
// handouts, in build/course/.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root, runMain, say } from './console.mjs';
import { ensurePackages } from './setup.mjs';

const folder = join(root, 'docs/course');
const out = join(root, 'build/course');

/** The chapters in their order, the index first: name and text. */
export function chapters() {
  const names = fs.readdirSync(folder).filter((name) => /^(\d\d-.*|README)\.md$/.test(name));
  return names
    .sort((a, b) => Number(b === 'README.md') - Number(a === 'README.md') || (a < b ? -1 : 1))
    .map((name) => ({
      name: name === 'README.md' ? 'index' : name.slice(0, -3),
      text: fs.readFileSync(join(folder, name), 'utf8'),
    }));
}

/** Divides a text into cells: texts and code. What the code prints is left out, since readers run it. */
export function cellsOf(text) {
  const parts = text.split(/^(```js\n.*?^```\n(?:\n```text\n.*?^```\n)?)/ms);
  return parts
    .map((part) => {
      const [, code] = /^```js\n(.*?)^```\n/ms.exec(part) ?? [];
      return code === undefined ? { type: 'text', source: part.trim() } : { type: 'code', source: code.trim() };
    })
    .filter(({ source }) => source !== '');
}

/** Divides a chapter into cells like cellsOf, but each solution, code included, is one cell of its own: { type: 'solution' }. */
export function foldedCellsOf(text) {
  return text
    .split(/^(<details>.*?^<\/details>\n)/ms)
    .flatMap((part) => (part.startsWith('<details>') ? [{ type: 'solution', source: part.trim() }] : cellsOf(part)));
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
    .replace(/\]\(((?:tasks\/)?[\w-]+\.(?:md|mjs))/g, '](https://github.com/heed/heed/blob/main/docs/course/$1')
    .replace(/\]\(\.\.\/([\w-]+)\.md/g, '](https://github.com/heed/heed/blob/main/docs/$1.md');
}

const { version } = JSON.parse(fs.readFileSync(join(root, 'package.json'), 'utf8'));
/** Imports of heed as a notebook needs them: Deno's kernel has `npm:`, pages load the files from a CDN. */
const forDeno = (code) => code.replace(/from 'heed([\w/]*)'/g, (_, entry) => `from 'npm:heed@${version}${entry}'`);
const forPages = (code) =>
  code.replace(
    /from 'heed(?:\/(\w+))?'/g,
    (_, entry = 'index') => `from 'https://cdn.jsdelivr.net/npm/heed@${version}/dist/${entry}.js'`,
  );

/** A chapter as a notebook in Jupyter's format 4.5. A solution is one folded text, below an empty cell for the answer. */
export function jupyter(text) {
  const lines = (source) => source.split(/(?<=\n)/);
  const markdown = (source) => ({ cell_type: 'markdown', metadata: {}, source: lines(linked(source, 'ipynb')) });
  const code = (source) => ({
    cell_type: 'code',
    metadata: {},
    execution_count: null,
    outputs: [],
    source: lines(forDeno(source)),
  });
  const cells = foldedCellsOf(text)
    .flatMap(({ type, source }) => {
      if (type === 'code') return [code(source)];
      return type === 'solution' ? [code('// your answer'), markdown(forDeno(source))] : [markdown(source)];
    })
    .map((cell, i) => ({ id: `cell-${i}`, ...cell }));
  const kernelspec = { display_name: 'Deno', language: 'typescript', name: 'deno' };
  return `${JSON.stringify({ cells, metadata: { kernelspec, language_info: { name: 'typescript' } }, nbformat: 4, nbformat_minor: 5 }, null, 1)}\n`;
}

/** Formulas as the notebook kit's interpolations, outside of code. */
const interpolated = (text) =>
  text
    .split(/(```.*?```|`[^`\n]*`)/s)
    .map((part, i) =>
      i % 2
        ? part
        : part
            .replace(/\$\$(.+?)\$\$/gs, (_, tex) => `\${tex.block\`${tex}\`}`)
            .replace(/(?<![\\{$])\$(?!\s|\{)([^$\n]+?)(?<!\s)\$(?!\d)/g, (_, tex) => `\${tex\`${tex}\`}`),
    )
    .join('');

const printing = `
function print(display, ...values) {
  const shown = (value) => (typeof value === 'string' ? value : (value?.toArray?.() ?? JSON.stringify(value) ?? String(value)));
  const output = document.createElement('pre');
  output.className = 'printed';
  output.textContent = values.map(shown).join(' ');
  display(output);
}`.trim();

/**
 * A chapter as an Observable notebook (notebook kit): an HTML file with a script element per cell. What a cell prints is shown
 * below it. Observable runs cells when the names that they use are ready; the names `ran1`, `ran2`, ... keep the order of the text.
 * The code of solutions is hidden until a reader opens it.
 */
export function observable(text) {
  const [, title] = /^# (.*)$/m.exec(text);
  let count = 0;
  const cells = foldedCellsOf(text).flatMap((cell) => {
    const isSolution = cell.type === 'solution';
    const parts = isSolution ? cellsOf(cell.source.replace(/<\/details>$/, '')) : [cell];
    return parts.map(({ type, source }) => {
      if (type === 'text') {
        // The notebook kit's Markdown refuses images of this kind, but not HTML.
        const images = linked(source, 'html').replace(/!\[([^\]]*)\]\((data:[^)]*)\)/g, '<img alt="$1" src="$2">');
        return ['text/markdown', interpolated(isSolution ? `${images}\n\n</details>` : images)];
      }
      const after = count === 0 ? '' : `ran${count};\n`;
      count++;
      const body = forPages(source).replaceAll('console.log(', 'print(display, ');
      return [isSolution ? 'module' : 'module" pinned="', `${after}${body}\nconst ran${count} = true;`];
    });
  });
  const scripts = [...cells, ['module', printing]].map(
    ([type, body], i) =>
      `  <script id="${i + 1}" type="${type}">\n${body.replaceAll('</script', '<\\/script').replace(/^/gm, '    ')}\n  </script>`,
  );
  return `<!doctype html>\n<notebook>\n  <title>${title}</title>\n${scripts.join('\n')}\n</notebook>\n`;
}

const style = `
body { font: 11pt/1.45 Georgia, serif; max-width: 44rem; margin: 2rem auto; padding: 0 1rem; }
h1 { break-before: page; } h1:first-of-type { break-before: auto; }
pre { font-size: 8.5pt; background: #f5f5f5; padding: 0.5rem; white-space: pre-wrap; break-inside: avoid; }
img { max-width: 100%; } table { border-collapse: collapse; } td, th { border: 1px solid #bbb; padding: 0.2rem 0.5rem; }
math[display="block"] { margin: 0.8rem 0; }
.answer { height: 6rem; border-bottom: 1px solid #bbb; }`;

/** markdown-it with formulas in MathML, which needs neither a style sheet nor a script. */
async function renderer() {
  await ensurePackages('tools/checks');
  const { href } = pathToFileURL(join(root, 'tools/checks/node_modules/markdown-it/index.mjs'));
  const { default: MarkdownIt } = await import(href);
  const { formulas } = await import('./site/formulas.mjs'); // after its packages are installed
  const markdown = new MarkdownIt({ html: true }).use(formulas, { output: 'mathml' });
  markdown.validateLink = () => true; // it would refuse figures as data URLs
  return (text) => markdown.render(linked(text, 'html')).replace(/href="(\d\d-[\w-]+|index)\.html[^"]*"/g, '');
}

/** All chapters as one HTML page for printing: a handout with the solutions, or without them and with room for answers. */
export async function page({ solutions = true } = {}) {
  const render = await renderer();
  const room = '<div class="answer"></div>';
  const body = chapters().map(({ text }) =>
    render(
      (solutions
        ? text.replaceAll('<details>', '<details open>')
        : text.replace(/^<details>.*?^<\/details>$/gms, room)
      ).replace(/^---\n\n.*\[Index\].*$/m, ''),
    ),
  );
  const title = solutions ? 'heed: a course, with solutions' : 'heed: a course';
  return `<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>${title}</title>\n<style>${style}</style>\n${body.join('\n')}\n</html>\n`;
}

/**
 * The slides of a chapter, as Markdown: its objectives, its formula, and one slide for each paragraph, table, figure and block of
 * code with what it prints; each exercise, then its solution.
 */
export function slidesOf(text) {
  const [, title] = /^# (.*)$/m.exec(text);
  const [, objectives] = /^\*\*Objectives:\*\* (.*?)\. \*\*Before/m.exec(text);
  const [opening, ...sections] = text.split(/^## /m);
  const slides = [`# ${title}\n\n${objectives.replaceAll('; ', '\n- ').replace(/^/, '- ')}`];
  /** Paragraphs, tables, figures, and code with its output. */
  const partsOf = (part) =>
    (part.match(/```(?:js|python)\n.*?^```\n(?:\n```text\n.*?^```)?|(?:(?!```|\n\n).)+/gms) ?? [])
      .map((piece) => piece.trim())
      .filter((piece) => piece !== '' && piece !== '---');

  /** The same, a short paragraph together with what it introduces. */
  const piecesOf = (part) => {
    const pieces = [];
    for (const piece of partsOf(part)) {
      const before = pieces.at(-1);
      const isShort =
        before !== undefined && !before.includes('\n\n') && !/^(```|!|\||\$\$)/.test(before) && before.length < 250;
      if (isShort) pieces[pieces.length - 1] = `${before}\n\n${piece}`;
      else pieces.push(piece);
    }
    return pieces;
  };
  const subject = title.replace(/^\d+\. /, '');
  const first = piecesOf(opening.replace(/^# .*\n\n\*\*Objectives.*\n/, ''));
  const formula = first.findIndex((piece) => piece.includes('$$'));
  const lines = first
    .slice(0, formula + 1)
    .map((piece) => (piece.includes('$$') ? piece.replaceAll(/, \\qquad\s*/g, () => ',$$\n\n$$') : piece));
  const start = [lines.join('\n\n'), ...first.slice(formula + 1)];
  slides.push(...start.map((piece) => `## ${subject}\n\n${piece}`));
  for (const section of sections) {
    const [, heading, body] = /^([^\n]*)\n(.*)$/s.exec(section);
    if (heading === 'Exercises')
      for (const [, number, rest] of body.matchAll(/^\*\*(\d)\.\*\* (.*?)^<\/details>$/gms)) {
        const [question, solution] = rest.split('<details><summary>Solution</summary>');
        slides.push(`## Exercise ${number}\n\n${question.trim()}`, `## Solution ${number}\n\n${solution.trim()}`);
      }
    else if (heading !== 'References' && heading !== 'Cost')
      slides.push(...piecesOf(body).map((piece) => `## ${heading}\n\n${piece}`));
  }
  return slides;
}

const slideStyle = `
@page { size: 1280px 720px; margin: 0; }
* { box-sizing: border-box; }
html { scroll-snap-type: y mandatory; }
body { margin: 0; font: 28px/1.4 system-ui, sans-serif; color: #1f2328; background: #fff; }
section { width: 1280px; height: 720px; margin: 0 auto; padding: 40px 64px; overflow: hidden; display: flex; flex-direction: column; scroll-snap-align: start; break-after: page; position: relative; }
section:not(:last-of-type) { border-bottom: 1px solid #ddd; }
h1 { font-size: 52px; margin: 120px 0 32px; } h2 { font-size: 36px; margin: 0 0 24px; }
pre { font: 20px/1.4 ui-monospace, monospace; background: #f6f8fa; padding: 12px 16px; margin: 0 0 12px; white-space: pre-wrap; }
code { font-size: 0.85em; } pre code { font-size: inherit; }
section > * { flex: none; } section > p:has(img) { flex: 1 1 0; min-height: 0; margin: 0; }
img { display: block; width: 100%; height: 100%; object-fit: contain; }
table { border-collapse: collapse; font-size: 22px; } td, th { border: 1px solid #bbb; padding: 4px 12px; text-align: left; }
math[display="block"] { margin: 8px 0; }
footer { position: absolute; bottom: 12px; right: 24px; font-size: 16px; color: #59636e; }
section.dense { font-size: 22px; } section.dense pre { font-size: 16px; line-height: 1.3; }
section.denser { font-size: 19px; } section.denser pre { font-size: 12px; line-height: 1.25; } section.denser h2 { font-size: 28px; margin-bottom: 12px; }`;

const slideKeys = `
const slides = [...document.querySelectorAll('section')];
addEventListener('keydown', (event) => {
  const step = { ArrowRight: 1, ArrowDown: 1, PageDown: 1, ' ': 1, ArrowLeft: -1, ArrowUp: -1, PageUp: -1 }[event.key];
  if (!step) return;
  event.preventDefault();
  const now = slides.findIndex((slide) => slide.getBoundingClientRect().bottom > 10);
  slides[Math.min(slides.length - 1, Math.max(0, now + step))].scrollIntoView();
});`;

/** The slides of a chapter as one HTML page: keys and presentation remotes turn them, and a browser prints one slide on each page. */
export async function slideDeck(text) {
  const render = await renderer();
  const [, title] = /^# (.*)$/m.exec(text);
  const all = slidesOf(text);
  const body = all.map((slide, i) => {
    const rows = slide.split('\n').map((line) => (line.startsWith('$$') ? 4 : Math.ceil((line.length + 1) / 100)));
    const lines = rows.reduce((sum, row) => sum + row, 0) - slide.split('\n\n').length;
    const kind = lines > 21 ? 'denser' : lines > 14 ? 'dense' : '';
    return `<section class="${kind}">${render(slide)}<footer>${title} · ${i + 1} / ${all.length}</footer></section>`;
  });
  return `<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n<title>${title}</title>\n<style>${slideStyle}</style>\n${body.join('\n')}\n<script>${slideKeys}</script>\n</html>\n`;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  await runMain(async () => {
    fs.rmSync(out, { recursive: true, force: true });
    for (const name of ['observable', 'slides']) fs.mkdirSync(join(out, name), { recursive: true });
    for (const { name, text } of chapters()) {
      fs.writeFileSync(join(out, `${name}.ipynb`), jupyter(text));
      fs.writeFileSync(join(out, 'observable', `${name}.html`), observable(text));
      if (name !== 'index') fs.writeFileSync(join(out, 'slides', `${name}.html`), await slideDeck(text));
    }
    fs.writeFileSync(join(out, 'handout.html'), await page({ solutions: false }));
    fs.writeFileSync(join(out, 'handout-with-solutions.html'), await page());
    say(
      'the course is in build/course/: notebooks for Jupyter and Observable, slides, and handouts with and without solutions',
    );
  });
