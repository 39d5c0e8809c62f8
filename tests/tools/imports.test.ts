// The rules of biome.json for imports in web/src find what is planted here.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, posix } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');
const biome = join(root, 'node_modules/@biomejs/biome/bin/biome');

/** The rules that sources, by their paths below web/src, break: `path: rule`. */
async function broken(sources: Record<string, string>): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'heed-imports-'));
  try {
    const config = JSON.parse(readFileSync(join(root, 'biome.json'), 'utf8'));
    writeFileSync(join(folder, 'biome.json'), JSON.stringify({ ...config, vcs: { enabled: false } }));
    for (const [name, text] of Object.entries(sources)) {
      const file = join(folder, 'web/src', name);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, text);
    }
    const rules = ['--only=suspicious/noImportCycles', '--only=style/noRestrictedImports'];
    const report = await new Promise<string>((resolve) =>
      execFile(process.execPath, [biome, 'lint', ...rules, '--reporter=json', 'web'], { cwd: folder }, (_, stdout) =>
        resolve(stdout),
      ),
    );
    const { diagnostics } = JSON.parse(report) as {
      diagnostics: { category: string; location: { path: string } }[];
    };
    return diagnostics.map(
      ({ category, location }) => `${location.path.replace(/^.*web\/src\//, '')}: ${category.split('/').at(-1)}`,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const exporting = 'export interface A {}\nexport const a = 1;\n';

it.each([
  ['a type', "import type { B } from './b.js';\nexport interface A extends B {}\n"],
  [
    'a type among values',
    "import { type B, b } from './b.js';\nexport interface A extends B {}\nexport const a = b;\n",
  ],
  ['what is exported again', "export * from './b.js';\nexport interface A {}\n"],
  ['what is imported later', "export interface A {}\nexport const a = () => import('./b.js');\n"],
])('refuses cycles through %s', async (_, a) => {
  const b = "import type { A } from './a.js';\nexport interface B extends A {}\nexport const b = 1;\n";
  expect(await broken({ 'models/a.ts': a, 'models/b.ts': b })).toEqual([
    'models/a.ts: noImportCycles',
    'models/b.ts: noImportCycles',
  ]);
});

it.each([
  ['base/a.ts', '../io/x.js'],
  ['io/a.ts', '../models/x.js'],
  ['text/a.ts', '../models/x.js'],
  ['models/onnx/a.ts', '../heads/x.js'],
  ['models/onnx/a.ts', '../../text/x.js'],
  ['layers/a.ts', '../models/x.js'],
  ['models/a.ts', '../layers/x.js'],
  ['models/heads/a.ts', '../../images/x.js'],
  ['models/a.ts', '../loading/x.js'],
  ['images/a.ts', '../loading/x.js'],
  ['loading/a.ts', '../worker/x.js'],
  ['search/a.ts', '../tasks/x.js'],
  ['tasks/a.ts', '../search/x.js'],
  ['images/a.ts', '../worker/x.js'],
  ['gpu/kernels/a.ts', '../../worker/x.js'],
  ['folders/a.ts', '../api/x.js'],
  ['worker/a.ts', '../train/x.js'],
  ['api/a.ts', '../pipeline/x.js'],
  ['draw/a.ts', '../models/index.js'],
  ['pipeline/a.ts', '../api/x.js'],
  ['util/a.ts', '../search/x.js'],
  ['evaluation/a.ts', '../models/x.js'],
  ['adapters/a.ts', '../io/x.js'],
  ['lens/a.ts', '../train/graph/x.js'],
  ['train/a.ts', '../search/x.js'],
  ['train/fine-tuning/a.ts', '../../tasks/x.js'],
  ['node/a.ts', '../scale/x.js'],
  ['scale/a.ts', '../node/x.js'],
  ['cli/commands/a.ts', '../../models/x.js'],
])('refuses %s to import %s', async (file, from) => {
  const x = join('x', dirname(file), from).replace(/^x\//, '').replace(/\.js$/, '.ts');
  const importing = (path: string) => `import type { A } from '${path}';\nexport interface B extends A {}\n`;
  expect(await broken({ [file]: importing(from), [x]: exporting })).toEqual([`${file}: noRestrictedImports`]);
});

it('admits imports of lower folders, and of the index.ts of folders', async () => {
  const sources = {
    'base/tensor.ts': exporting,
    'io/x.ts': "export * from '../base/tensor.js';\n",
    'models/x.ts': "export * from '../io/x.js';\n",
    'models/index.ts': "export * from './x.js';\n",
    'models/heads/x.ts': "export * from '../../base/tensor.js';\nexport * from '../x.js';\n",
    'api/runtime.ts': "export * from '../models/heads/x.js';\n",
    'index.ts': "export * from './api/runtime.js';\n",
    'train/fit/x.ts': "export * from '../../models/x.js';\n",
    'lens/x.ts': "export * from '../models/index.js';\n",
    'cli/commands/x.ts': "export * from '../../index.js';\n",
  };
  expect(await broken(sources)).toEqual([]);
});

const source = join(root, 'web/src');
const folders = new Map<string, string[]>();
for (const path of readdirSync(source, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts')))
  folders.set(dirname(path), [...(folders.get(dirname(path)) ?? []), basename(path)]);

it('keeps folders small, and names apart', () => {
  const large = [...folders].filter(([, files]) => files.length > 30).map(([folder]) => folder);
  expect(large).toEqual([]);
  const places = new Map<string, string[]>();
  for (const [folder, files] of folders)
    for (const file of files) if (file !== 'index.ts') places.set(file, [...(places.get(file) ?? []), folder]);
  expect([...places].filter(([, found]) => found.length > 2)).toEqual([]);
});

const tables = readFileSync(join(root, 'CONTRIBUTING.md'), 'utf8')
  .split('### Folders of web/src')[1]!
  .split('\n## ')[0]!;
/** What a folder may import: files and folders below web/src. */
interface Row {
  named: string[];
  /** Folders of the rows above, which a row may name together, for one of its files alone (`through`) or for all. */
  above: string[];
  through?: string;
}
const rows = new Map<string, Row>();
for (const [, folder, imports] of tables.matchAll(/^\| `([\w/]+)\/` \|([^|]*)\|/gm)) {
  const [, all, through] = /^ (all of the above|everything above through `([^`]+)`)/.exec(imports!) ?? ['', ''];
  const named = [...imports!.replace(all!, '').matchAll(/`([^`]+)`/g)].map(([, each]) =>
    each!.replace(/^heed$/, 'index.ts').replace(/^heed\/corpus$/, 'corpus.ts'),
  );
  const above = all ? [...rows.keys()].map((each) => `${each}/`) : [];
  rows.set(folder!, { named, above, ...(through && { through }) });
}

it('has a row for each folder in CONTRIBUTING', () => {
  const named = [...rows.keys()].filter((name) => !name.includes('/'));
  const present = new Set([...folders.keys()].map((folder) => folder.split('/')[0]!).filter((name) => name !== '.'));
  expect(named.sort()).toEqual([...present].sort());
});

it('imports between folders are those of CONTRIBUTING', () => {
  const unlisted: string[] = [];
  const used = new Set<string>();
  for (const [folder, files] of folders) {
    const row = rows.has(folder) ? folder : folder.split('/')[0]!;
    const { named, above, through } = rows.get(row) ?? { named: [], above: [] };
    for (const file of rows.has(row) ? files : []) {
      const { importedFiles } = ts.preProcessFile(readFileSync(join(source, folder, file), 'utf8'), true, true);
      for (const { fileName } of importedFiles.filter((each) => each.fileName.startsWith('.'))) {
        const target = posix.join(folder, fileName).replace(/\.js$/, '.ts');
        const isInside = target.startsWith(`${row}/`) || target.startsWith('base/') || target.endsWith('.json');
        if (isInside) continue;
        const find = (entries: string[]) =>
          entries.find((each) => target === each || (each.endsWith('/') && target.startsWith(each)));
        const entry = find(named);
        if (entry) used.add(`${row}: ${entry}`);
        else if (!find(above) || (through && file !== through)) unlisted.push(`${folder}/${file}: ${target}`);
      }
    }
  }
  expect(unlisted).toEqual([]);
  const listed = [...rows].flatMap(([row, { named }]) => named.map((each) => `${row}: ${each}`));
  expect(listed.filter((each) => !used.has(each))).toEqual([]);
});
