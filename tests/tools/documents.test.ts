/** Files, links and commands that the documents name exist. tests/web/docs.test.ts runs the examples of docs/. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { expect, it } from 'vitest';
import { filesBelow } from '../../tools/files.mjs';
import { coursePages, groups } from '../../tools/site/menu.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const folders = ['.ci', '.github', 'bench', 'cmake', 'cpp', 'demo', 'docs', 'examples', 'tests', 'tools', 'web'];
const files = [
  ...readdirSync(root),
  ...folders.flatMap((folder) => filesBelow(join(root, folder)).map((file) => file.slice(root.length))),
].filter((file) => !file.includes('node_modules/'));
const documents = files.filter((file) => file.endsWith('.md') && !file.startsWith('tests/'));

/** Documents about the sources: every source file that they name is one of the repository. Those for users name also files of packages and of users. */
const aboutSources = ['CONTRIBUTING.md', 'bench/PROFILE.md', 'demo/README.md'];

/** `a/{b,c}.ts` -> `a/b.ts`, `a/c.ts`. */
function alternatives(path: string): string[] {
  const [, before, choices, after] = path.match(/^(.*?)\{([^}]*)\}(.*)$/) ?? [];
  return choices === undefined ? [path] : choices.split(',').flatMap((one) => alternatives(before + one + after));
}

/** Whether files match a path, in which `*` stands for any name. */
function isThere(path: string): boolean {
  const pattern = path.replace(/[.+()[\]]/g, '\\$&').replaceAll('*', '[^/]*');
  const whole = new RegExp(`^${pattern.replace(/\/$/, '')}(/|$)`);
  return files.some((file) => whole.test(file));
}

/** Files and folders named in a document's code: paths from a folder of the repository, in any document. */
function pathsIn(text: string): string[] {
  const starts = folders.map((folder) => folder.replace('.', '\\.')).join('|');
  return [...text.matchAll(new RegExp(`(?<![\\w./~-])((?:${starts})/[\\w./{},*-]*)`, 'g'))]
    .map(([, path]) => path!.replace(/[.,]+$/, ''))
    .flatMap(alternatives);
}

/** Names of source files in code spans, such as `core/check.h`, and in lists of files in code blocks, before what is said about each. */
function namesIn(text: string): string[] {
  const withoutCode = text.replace(/^```\w+\n.*?^```\n/gms, '');
  const blocks = [...withoutCode.matchAll(/^```\n(.*?)^```/gms)].flatMap(([, block]) => block!.split('\n'));
  const listed = blocks.flatMap((line) => line.split(/ {2,}/)[0]!.split(' ')).filter((name) => name !== '');
  const spans = [...text.matchAll(/`([\w./{},*-]+\.(?:m?[jt]sx?|cpp|h|py|json))`/g)].flatMap(([, name]) =>
    alternatives(name!),
  );
  return [...spans, ...listed];
}

it.each(documents)('%s names files that exist', (document) => {
  const text = readFileSync(join(root, document), 'utf8');
  const here = dirname(document);
  const missing = pathsIn(text).filter((path) => !isThere(path) && !isThere(join(here, path)));
  const isSource = (name: string) =>
    isThere(join(here, name)) || files.some((file) => `/${file}`.endsWith(`/${name.replace(/\/$/, '')}`));
  if (aboutSources.includes(document))
    missing.push(...namesIn(text).filter((name) => !/^(dist|build)\//.test(name) && !isSource(name)));
  expect(missing).toEqual([]);
});

it('finds the files that a document names', () => {
  const text =
    'See `tests/web/{functions,masks}.test.ts`, docs/masks.md. Run `node tools/size.mjs`; `core/check.h`\n\n```\nsrc/a.ts b.ts  two\n```\n';
  expect(pathsIn(text)).toEqual([
    'tests/web/functions.test.ts',
    'tests/web/masks.test.ts',
    'docs/masks.md',
    'tools/size.mjs',
  ]);
  expect(namesIn(text)).toContain('core/check.h');
  expect(namesIn(text)).toContain('b.ts');
  expect([isThere('tests/web/'), isThere('docs/*.md'), isThere('docs/mask.md'), isThere('tests/we')]).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

it.each(documents)('%s links to files that exist', (document) => {
  const text = readFileSync(join(root, document), 'utf8').replace(/```.*?```/gs, '');
  const targets = [...text.matchAll(/\]\((?!\w+:)([^)#\s]+)/g)].map(([, target]) => target!);
  expect(targets.filter((target) => !existsSync(join(root, dirname(document), target)))).toEqual([]);
});

/** The addresses of a document's headings. Headings with code have other ones on the site than on GitHub, so links must not need them. */
const anchorsOf = (document: string) =>
  [
    ...readFileSync(document, 'utf8')
      .replace(/```.*?```/gs, '')
      .matchAll(/^#{1,6} (.*)$/gm),
  ]
    .map(([, title]) => title!)
    .filter((title) => !title.includes('`'))
    .map((title) =>
      title
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    );

it.each(documents.filter((file) => file.startsWith('docs/')))('%s links to headings that exist', (document) => {
  const text = readFileSync(join(root, document), 'utf8').replace(/```.*?```/gs, '');
  const links = [...text.matchAll(/\]\((?!\w+:)([^)#\s]*)#([^)\s]+)\)/g)];
  const dead = links.filter(([, file, anchor]) => {
    const target = file === '' ? join(root, document) : join(root, dirname(document), file!);
    return target.endsWith('.md') && !anchorsOf(target).includes(decodeURIComponent(anchor!));
  });
  expect(dead.map(([link]) => link)).toEqual([]);
});

it('the README has at most 1,200 words', () => {
  const words = readFileSync(join(root, 'README.md'), 'utf8').split(/\s+/).filter(Boolean);
  expect(words.length).toBeLessThanOrEqual(1200);
});

it('the menu of the site has each page once, under its title', () => {
  const menu = groups().flatMap(({ pages }) => pages);
  const all = [...menu, ...coursePages().slice(1)].map(({ name }) => name);
  const pages = documents.filter((file) => /^docs\/(course\/)?[\w-]+\.md$/.test(file)).map((file) => file.slice(5, -3));
  expect(all.sort()).toEqual(pages.filter((name) => name !== 'README').sort());
  for (const { title } of menu) expect(title.length).toBeLessThan(60); // one or two lines of the menu
});

it('the pages of errors name every code', () => {
  const source = readFileSync(join(root, 'web/src/base/error.ts'), 'utf8');
  const [type] = /export type HeedErrorCode =.*?\n\n/s.exec(source)!;
  const codes = [...type.matchAll(/\| '(\w+)'/g)].map(([, code]) => code!);
  const page = readFileSync(join(root, 'docs/errors.md'), 'utf8');
  expect([...page.matchAll(/^\| `([A-Z_]+)` \|/gm)].map(([, code]) => code!).sort()).toEqual(codes.sort());
});

it('the table of entries names every entry of the package', () => {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const page = readFileSync(join(root, 'docs/entries.md'), 'utf8');
  for (const entry of Object.keys(exports))
    if (entry !== './node' && entry !== './package.json') expect(page).toContain(`\`${entry.replace(/^\./, 'heed')}\``); // heed/node is an error
});

it.each(documents)('%s names commands that exist', (document) => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const text = readFileSync(join(root, document), 'utf8');
  const commands = [...text.matchAll(/\bnpm run ([\w:-]+)/g)].map(([, name]) => name!);
  expect(commands.filter((name) => !(name in scripts))).toEqual([]);
});

it('the documents state the sizes of the scripts that are loaded later', () => {
  const dist = (file: string) => readFileSync(join(root, 'dist', file));
  const kilobytes = (files: Iterable<string>) =>
    [...files].reduce((sum, file) => sum + brotliCompressSync(dist(file)).length, 0) / 1000;
  /** A script and those that it imports when it is loaded. */
  const withImports = (file: string, found = new Set<string>()): Set<string> => {
    if (found.has(file)) return found;
    found.add(file);
    for (const [, name] of dist(file)
      .toString()
      .matchAll(/(?:from|import)\s*["'`]\.\/([^"'`]+\.js)["'`]/g))
      withImports(name!, found);
    return found;
  };
  const entry = withImports('index.js');
  const more = [...withImports('service-worker.js')].filter((file) => !entry.has(file));
  const stated = (document: string, pattern: RegExp) =>
    Number(pattern.exec(readFileSync(join(root, document), 'utf8'))![1]);
  const serviceWorkers = stated('docs/workers.md', /includes all these parts \(about (\d+) KB more/);
  expect(Math.abs(kilobytes(more) / serviceWorkers - 1)).toBeLessThan(0.06);
  const workerParts = stated('docs/bundlers.md', /`worker-parts\.js` \(about (\d+) KB\)/);
  expect(Math.abs(kilobytes(['worker-parts.js']) / workerParts - 1)).toBeLessThan(0.06);
});

it('what Inspection and the model card say about heads is what was measured', () => {
  const stories = JSON.parse(readFileSync(join(root, 'tools/model/stories.json'), 'utf8'));
  const page = readFileSync(join(root, 'docs/inspection.md'), 'utf8');
  const shares: number[] = stories.special.both.flat().sort((a: number, b: number) => a - b);
  const percent = (share: number) => Math.round(100 * share);
  const mean = shares.reduce((sum, share) => sum + share, 0) / shares.length;
  const [, average, low, high] = /: (\d+) % on average, and between (\d+) and (\d+) % in eight of ten heads/.exec(
    page,
  )!;
  expect([average, low, high].map(Number)).toEqual(
    [mean, shares[Math.floor(shares.length / 10)]!, shares[Math.ceil(0.9 * shares.length) - 1]!].map(percent),
  );
  for (const { layer, head } of Object.values<{ layer: number; head: number }>(stories.heads))
    expect(page).toContain(`| \`attentions[${layer}]\`, head ${head} |`);
  const card = readFileSync(join(root, 'web/model/README.md'), 'utf8');
  for (const { word, within, between, nearest } of stories.senses)
    expect(card).toMatch(
      new RegExp(`\\| ${word} \\| .* \\| ${within.toFixed(2)} \\| ${between.toFixed(2)} \\| ${nearest} \\|`),
    );
});
