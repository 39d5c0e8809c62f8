// Only web/src/base/own-files.ts calls what deletes, renames, cuts or replaces files, and only web/src/io/cache-stores.ts
// what changes a Cache: they decide what is heed's own.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../web/src');

const NAMES = [
  ...['rm', 'rmdir', 'unlink', 'truncate', 'ftruncate', 'rename', 'link', 'symlink', 'mkdtemp', 'cp', 'copyFile'],
  ...['writeFile', 'appendFile', 'write', 'writev', 'chmod', 'utimes'],
];
const FORBIDDEN = new Set([...NAMES, ...NAMES.map((name) => `${name}Sync`), 'createWriteStream', 'fileWriter']);
/** A file is opened for writing by this flag. */
const isWriting = (flag: ts.Expression | undefined) =>
  flag !== undefined && !(ts.isStringLiteral(flag) && flag.text === 'r');

/** The calls in a source that only one file may make. */
function calls(source: string): string[] {
  const file = ts.createSourceFile('a.ts', source, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const usesFiles = /\bnode:fs\b|nodeModule<[^>]*node:fs|io\/node\.js|\.\/node\.js/.test(source);
  const visit = (node: ts.Node): void => {
    if (ts.isImportSpecifier(node)) {
      const from = (node.parent.parent.parent.moduleSpecifier as ts.StringLiteral).text;
      const name = (node.propertyName ?? node.name).text;
      if (/^node:fs|^fs\b|hyparquet-writer/.test(from) && FORBIDDEN.has(name)) found.push(name);
    }
    if (usesFiles && ts.isPropertyAccessExpression(node)) {
      const [object, name] = [node.expression.getText(file), node.name.text];
      if (/^\(?(fs|promises|fsp)\b/.test(object) && FORBIDDEN.has(name)) found.push(name);
    }
    if (usesFiles && ts.isCallExpression(node)) {
      const name = /(?:^|[.!])(open|openSync)$/.exec(node.expression.getText(file))?.[1];
      const isFile = name && /^(fs\b|openSync)/.test(node.expression.getText(file));
      if (isFile && isWriting(node.arguments[1])) found.push(`${name} for writing`);
    }
    if (ts.isPropertyAccessExpression(node) && /^caches?$/.test(node.expression.getText(file)))
      if (['put', 'add', 'addAll', 'delete'].includes(node.name.text)) found.push(`cache.${node.name.text}`);
    ts.forEachChild(node, visit);
  };
  visit(file);
  return [...new Set(found)].sort();
}

it.each([
  ["import { rmSync } from 'node:fs';", ['rmSync']],
  ["import { rename as move } from 'node:fs/promises';", ['rename']],
  ["import * as fs from 'node:fs'; fs.ftruncateSync(1, 2);", ['ftruncateSync']],
  ["import * as fs from 'node:fs'; fs.promises.rm('a');", ['rm']],
  [
    "import * as fs from 'node:fs'; fs.openSync('a', 'wx'); fs.openSync('b', 'r'); fs.openSync('c');",
    ['openSync for writing'],
  ],
  ["import { fs } from '../io/node.js'; fs!.rename('a', 'b');", ['rename']],
  ["import { fs } from './node.js'; await fs!.open(path, flags);", ['open for writing']],
  ["import { fileWriter } from 'hyparquet-writer';", ['fileWriter']],
  ['const store = (cache: Cache) => cache.delete("a");', ['cache.delete']],
  ["import { existsSync } from 'node:fs'; call.unlink(); text.link('x'); existsSync('a');", []],
])('%s', (source, expected) => {
  expect(calls(source)).toEqual(expected);
});

it('only these files call them', () => {
  const found: Record<string, string[]> = {};
  for (const name of readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'))) {
    const made = calls(readFileSync(join(root, name), 'utf8'));
    if (made.length > 0) found[name.replaceAll('\\', '/')] = made;
  }
  expect(Object.keys(found).sort()).toEqual(['base/own-files.ts', 'io/cache-stores.ts', 'scale/part.ts']);
  expect(found['io/cache-stores.ts']).toEqual(['cache.delete', 'cache.put']);
  expect(found['scale/part.ts']).toEqual(['fileWriter']); // into a file that own-files.ts has made
});
