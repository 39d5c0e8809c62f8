/**
 * Pending calls hold what they work on: every public function and method that returns a promise or a stream is called on
 * objects that nothing else refers to, in a process that collects garbage (child.mjs). Afterwards, everything is
 * collected. A call that the declarations have and the table of child.mjs lacks fails.
 */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import ts from 'typescript';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bytesOf, fixtures } from '../models/fixtures.js';
import { tinyClip, tinyModel } from '../models/tiny.js';

const root = fileURLToPath(new URL('../../../', import.meta.url));
/** `HEED_DIST`: another build, to see that the test fails on it. */
const dist = process.env.HEED_DIST ?? join(root, 'dist');
const folder = mkdtempSync(join(tmpdir(), 'heed-forgotten-'));

beforeAll(() => {
  const files = tinyModel();
  const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
  const id2label = { 0: 'contradiction', 1: 'neutral', 2: 'entailment' };
  const kinds = {
    bert: files,
    'one-label': { ...bytesOf(`${fixtures}bert-one-label`), 'tokenizer.json': files['tokenizer.json']! },
    'zero-shot': { ...files, 'config.json': JSON.stringify({ ...config, id2label }) },
    gliner: bytesOf(`${fixtures}gliner`),
    clip: tinyClip(),
    'dinov2-labels': bytesOf(`${fixtures}dinov2-labels`),
  };
  for (const [kind, own] of Object.entries(kinds))
    for (const [name, file] of Object.entries(own)) {
      const path = join(folder, kind, name);
      mkdirSync(dirname(path), { recursive: true });
      writeFileSync(path, file);
    }
});
afterAll(() => rmSync(folder, { recursive: true }));

interface Report {
  /** 'resolved', or the error, by the name of the call. */
  outcomes: Record<string, string>;
  /** The calls whose object has not been collected. */
  left: string[];
  /** The number of workers that run. */
  workers: number;
}

async function run(flags: string[], only = ''): Promise<Report> {
  const child = fileURLToPath(new URL('child.mjs', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, child, folder, dist, only]);
  return JSON.parse(stdout) as Report;
}

const failed = ({ outcomes }: Report) => Object.entries(outcomes).filter(([, outcome]) => outcome !== 'resolved');

/** Functions without an object that could be collected. */
const OWNERLESS = ['clearCache', 'listCache'];
const STREAMS = ['Promise', 'PromiseLike', 'AsyncGenerator', 'AsyncIterable'];

/** The exported functions, and the public methods of exported types, that return a promise or a stream. */
function declared(): Set<string> {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root);
  const adapters = ['ai-sdk', 'langchain', 'chroma', 'lancedb'].map((name) => `adapters/${name}`);
  const entries = ['index', 'train/index', 'lens/index', 'evaluation/index', ...adapters];
  const paths = entries.map((entry) => join(root, `web/src/${entry}.ts`));
  const program = ts.createProgram(paths, { ...options, skipLibCheck: true });
  const checker = program.getTypeChecker();
  const isStream = (type: ts.Type): boolean =>
    type.isUnion() ? type.types.some(isStream) : STREAMS.includes(type.symbol?.name);
  const returnsStream = (type: ts.Type) => type.getCallSignatures().some((one) => isStream(one.getReturnType()));
  const isPublic = (member: ts.Symbol) =>
    !/^(__)?#/.test(member.name) &&
    member.declarations?.some((node) => {
      const isInternal = ts.getJSDocTags(node).some(({ tagName }) => tagName.text === 'internal');
      const isHidden = ts.getCombinedModifierFlags(node) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected);
      return node.getSourceFile().fileName.includes('/web/src/') && !isInternal && !isHidden;
    });
  const found = new Set<string>();
  for (const path of paths)
    for (const exported of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(path)!)!)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      const { name, flags, valueDeclaration } = symbol;
      if (valueDeclaration && returnsStream(checker.getTypeOfSymbolAtLocation(symbol, valueDeclaration)))
        found.add(name);
      if (name.endsWith('Options')) continue; // what callers pass, such as `fetch`
      const kinds: [string, ts.Type][] = [];
      const isType = flags & (ts.SymbolFlags.Class | ts.SymbolFlags.Interface | ts.SymbolFlags.TypeAlias);
      if (isType) kinds.push(['', checker.getDeclaredTypeOfSymbol(symbol)]);
      if (flags & ts.SymbolFlags.Class) kinds.push(['static ', checker.getTypeOfSymbol(symbol)]);
      for (const [kind, type] of kinds)
        for (const member of checker.getPropertiesOfType(type))
          if (isPublic(member) && returnsStream(checker.getNonNullableType(checker.getTypeOfSymbol(member))))
            found.add(`${kind}${name}.${member.name}`);
    }
  for (const name of OWNERLESS) found.delete(name);
  return found;
}

test('only known files free what the collector finds', () => {
  const src = join(root, 'web/src');
  const files = ts.sys.readDirectory(src, ['.ts']);
  const using = (pattern: RegExp) => files.filter((path) => pattern.test(readFileSync(path, 'utf8')));
  const names = (paths: string[]) => paths.map((path) => relative(src, path)).sort();
  expect(names(using(/new FinalizationRegistry/))).toEqual(['base/platform.ts']);
  // A class whose calls return promises must be passed to `heldByCalls` before it is added here.
  const known = [
    'api/runtime.ts',
    'base/owned.ts',
    'train/graph/tape.ts',
    'worker/client.ts',
    'worker/remote-store.ts',
  ];
  expect(names(using(/= registry</))).toEqual(known);
});

test('calls on objects that nothing else refers to resolve, and the objects are then collected', async () => {
  const report = await run(['--expose-gc']);
  const listed = new Set(Object.keys(report.outcomes).map((name) => name.replace(/,.*| of .*/, '')));
  const names = declared();
  expect(names.size).toBeGreaterThan(90);
  expect([...names].filter((name) => !listed.has(name))).toEqual([]);
  expect(failed(report)).toEqual([]);
  expect(report.left).toEqual([]);
  expect(report.workers).toBe(0);
});

test('the same where the engine decides when to collect', async () => {
  const report = await run(['--gc-global', '--max-semi-space-size=1'], 'PretrainedModel');
  expect(failed(report)).toEqual([]);
  expect(report.left).toEqual([]);
  expect(report.workers).toBe(0);
});
