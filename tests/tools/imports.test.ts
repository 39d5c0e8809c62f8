// The rules of biome.json for imports in web/src find what is planted here.
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
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
  ['tensor.ts', './io/x.js'],
  ['io/a.ts', '../models/x.js'],
  ['layers/a.ts', '../models/x.js'],
  ['models/a.ts', '../layers/x.js'],
  ['models/tasks/a.ts', '../../images/x.js'],
  ['images/a.ts', '../worker/x.js'],
  ['worker/a.ts', '../train/x.js'],
  ['runtime.ts', './train/x.js'],
  ['train/fine-tuning/a.ts', '../../cli/x.js'],
  ['node/a.ts', '../scale/x.js'],
  ['node.ts', './cli/x.js'],
  ['scale/a.ts', '../cli/x.js'],
  ['adapters/a.ts', '../io/x.js'],
])('refuses %s to import %s', async (file, from) => {
  const x = join('x', dirname(file), from).replace(/^x\//, '').replace(/\.js$/, '.ts');
  const importing = (path: string) => `import type { A } from '${path}';\nexport interface B extends A {}\n`;
  expect(await broken({ [file]: importing(from), [x]: exporting })).toEqual([`${file}: noRestrictedImports`]);
});

it('admits imports of what is below', async () => {
  const sources = {
    'tensor.ts': exporting,
    'io/x.ts': "export * from '../tensor.js';\n",
    'models/x.ts': "export * from '../io/x.js';\n",
    'models/tasks/x.ts': "export * from '../../tensor.js';\nexport * from '../x.js';\n",
    'runtime.ts': "export * from './models/tasks/x.js';\n",
    'cli/x.ts': "export * from '../runtime.js';\n",
  };
  expect(await broken(sources)).toEqual([]);
});
