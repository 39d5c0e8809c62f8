// The public API's report, which is checked in (docs/api/), and the documentation's site (`npm run docs`).
import * as fs from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { PlainError, root, run, runMain, say } from './console.mjs';
import { filesBelow } from './files.mjs';
import { ensurePackages, setup } from './setup.mjs';
import { groups } from './site/menu.mjs';

const tool = (path) => [process.execPath, join(root, 'tools/checks/node_modules', path)];
const report = 'docs/api/heed.api.md';

/**
 * Compares the API report with the sources, or rewrites it.
 * @throws PlainError if they differ
 */
export async function apiReport({ write = false } = {}) {
  await ensurePackages('tools/checks');
  const types = join(root, 'build/api/types');
  fs.rmSync(types, { recursive: true, force: true });
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  await run([process.execPath, tsc, '-p', 'tsconfig.build.json', '--outDir', types]);
  fs.mkdirSync(join(root, 'docs/api'), { recursive: true });
  const extractor = tool('@microsoft/api-extractor/bin/api-extractor');
  const options = ['run', '--config', 'tools/checks/api-extractor.jsonc', ...(write ? ['--local'] : [])];
  const { status, output } = await run([...extractor, ...options], { quiet: true, allowFailure: true });
  if (status === 0) return;
  if (!/API signature/.test(output)) throw new PlainError(`api-extractor failed:\n${output}`);
  const { output: changes } = await run(['git', 'diff', '--no-index', '--', report, 'build/api/heed.api.md'], {
    quiet: true,
    allowFailure: true,
  });
  throw new PlainError(`${changes}the public API differs from ${report}; \`npm run format\` updates it`);
}

/** Writes the site to build/docs/, or (`write: false`) only checks its links. */
export async function apiReference({ write = true } = {}) {
  await ensurePackages('tools/checks');
  const options = ['--options', 'tools/checks/typedoc.mjs', '--logLevel', 'Warn', ...(write ? [] : ['--emit', 'none'])];
  await run([...tool('typedoc/bin/typedoc'), ...options]);
}

/**
 * Adds links to the previous and the next page to those of docs/.
 * @param {string} site the folder of the site
 * @param {readonly string[]} names the pages in their order, without `.md`
 */
export function linkPages(site, names) {
  const pages = names.map((name) => {
    const file = join(site, 'documents', `${name}.html`);
    const html = fs.readFileSync(file, 'utf8');
    return {
      file,
      html,
      name,
      title: html
        .match(/<h1[^>]*>(.*?)<\/h1>/s)[1]
        .replace(/<[^>]*>/g, '')
        .trim(),
    };
  });
  const link = (page, rel, text) =>
    page ? `<a rel="${rel}" href="${page.name}.html">${text(page.title)}</a>` : '<span></span>';
  pages.forEach(({ file, html }, i) => {
    const previous = link(pages[i - 1], 'prev', (title) => `← ${title}`);
    const next = link(pages[i + 1], 'next', (title) => `${title} →`);
    const style = 'display:flex;justify-content:space-between;gap:2rem;margin:3rem 0 1rem';
    const nav = `<nav aria-label="Previous and next page" style="${style}">${previous}${next}</nav>`;
    const at = html.indexOf('</div>\n<div class="col-sidebar">');
    if (at < 0) throw new PlainError(`${file}: TypeDoc's pages have changed: no end of the text was found`);
    fs.writeFileSync(file, html.slice(0, at) + nav + html.slice(at));
  });
}

/** What examples in pages do not need of the package. */
const notInPages = /\.map$|^types\/|^adapters\/|^cli\.js$|^(corpus|node)\.js$|^heed-threads-/;

const runStyle = `<style>
.run-example { margin: 0.25rem 0 1rem; padding: 0.2rem 0.9rem; cursor: pointer; }
.run-output { margin: 0 0 1rem; max-height: 24rem; overflow: auto; }
</style>`;

/**
 * Adds buttons that run examples to the pages of docs/, with a copy of heed.
 * @param {string} site the folder of the site
 * @param {string} dist the built package
 */
export function addExamples(site, dist) {
  for (const file of filesBelow(dist).map((name) => name.slice(dist.length + 1)))
    if (!notInPages.test(file.replaceAll('\\', '/'))) {
      fs.mkdirSync(dirname(join(site, 'heed', file)), { recursive: true });
      fs.copyFileSync(join(dist, file), join(site, 'heed', file));
    }
  fs.mkdirSync(join(site, 'assets'), { recursive: true });
  for (const name of ['run.js', 'run-worker.js'])
    fs.copyFileSync(join(root, 'tools/site', name), join(site, 'assets', name));
  for (const file of filesBelow(join(site, 'documents')).filter((name) => name.endsWith('.html'))) {
    const html = fs.readFileSync(file, 'utf8');
    if (!html.includes('<code class="js">')) continue;
    const script = '<script type="module" src="../assets/run.js"></script>';
    fs.writeFileSync(
      file,
      html.replace('</head>', () => `${runStyle}${script}</head>`),
    );
  }
}

/**
 * Adds KaTeX's style sheet and fonts to the pages with formulas.
 * @param {string} site the folder of the site
 */
export function addFormulaStyle(site) {
  const katex = join(root, 'tools/checks/node_modules/katex/dist');
  const assets = join(site, 'assets/katex');
  fs.mkdirSync(join(assets, 'fonts'), { recursive: true });
  fs.copyFileSync(join(katex, 'katex.min.css'), join(assets, 'katex.min.css'));
  for (const font of fs.readdirSync(join(katex, 'fonts')).filter((name) => name.endsWith('.woff2')))
    fs.copyFileSync(join(katex, 'fonts', font), join(assets, 'fonts', font));
  for (const file of filesBelow(site).filter((name) => name.endsWith('.html'))) {
    const html = fs.readFileSync(file, 'utf8');
    if (!html.includes('class="katex"')) continue;
    const href = relative(dirname(file), join(assets, 'katex.min.css')).replaceAll('\\', '/');
    fs.writeFileSync(
      file,
      html.replace('</head>', () => `<link rel="stylesheet" href="${href}"></head>`),
    );
  }
}

/**
 * Checks that every relative link of a site, with its anchor, has a target.
 * @throws PlainError that lists those that do not
 */
export function checkLinks(site) {
  const pages = filesBelow(site).filter((file) => file.endsWith('.html'));
  const anchors = new Map(
    pages.map((page) => [page, new Set(fs.readFileSync(page, 'utf8').match(/(?<=\bid=")[^"]+/g))]),
  );
  const dead = pages.flatMap((page) => {
    const links = fs.readFileSync(page, 'utf8').matchAll(/\b(?:href|src)="(?![\w+.-]+:)([^"#?]*)(?:#([^"]*))?"/g);
    return [...links].flatMap(([link, path, anchor]) => {
      const target = path === '' ? page : join(dirname(page), decodeURIComponent(path));
      const isThere =
        fs.existsSync(target) && (!anchor || (anchors.get(target)?.has(decodeURIComponent(anchor)) ?? true));
      return isThere ? [] : [`${page.slice(site.length + 1)}: ${link}`];
    });
  });
  if (dead.length > 0) throw new PlainError(`dead links:\n${[...new Set(dead)].join('\n')}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runMain(async () => {
    await setup();
    await apiReference();
    addFormulaStyle(join(root, 'build/docs'));
    addExamples(join(root, 'build/docs'), join(root, 'dist'));
    const names = groups().flatMap(({ pages }) => pages.map(({ name }) => name));
    linkPages(
      join(root, 'build/docs'),
      names.filter((name) => !name.startsWith('course/')),
    ); // chapters have links of their own
    checkLinks(join(root, 'build/docs'));
    say('the documentation is in build/docs/');
  });
}
