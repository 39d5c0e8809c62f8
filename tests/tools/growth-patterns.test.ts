/**
 * Sources have no calls that grow faster than their input, or that fail for long lists: engines limit the number of
 * arguments of a call to some 100,000, and a list that is copied for each of its entries takes quadratic time.
 * web/src/base/lists.ts has functions for both.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseSync } from 'vite';
import { describe, expect, it } from 'vitest';

const root = join(import.meta.dirname, '../..');

/** Spreads that are short: their file, the call and what is spread, with the reason. */
const SHORT: Record<string, string> = {
  'web/src/base/sites.ts: all.push(...sites.map((site) => prefix + site))': 'the kinds of sites of a layer',
  'web/src/base/sites.ts: all.push(...sites.map((each) => prefix + layers + each))': 'the kinds of sites of a layer',
  'web/src/draw/surface.ts: svg.replaceChildren(...(nodes as never[]))':
    'the elements of a drawing, whose sizes its callers limit',
  'web/src/gpu/gpu-encoder.ts: uploads.linear(...distanceProjection(of, config))': 'a fixed number of arguments',
  'web/src/gpu/gpu-sites.ts: Math.min(...at)': 'three indices',
  'web/src/images/image-model.ts: Math.min(...grid)': 'rows and columns',
  'web/src/io/files.ts: String.fromCharCode(...start.subarray(0, 8))': 'eight bytes',
  'web/src/models/families/sentence-transformers.ts: parseJson(...modules)': 'bytes and a name',
  'web/src/models/heads/gliner.ts: spans.score(...parts!)': 'a fixed number of arguments',
  'web/src/text/chat-template.ts: ChatTemplate(...named)': 'a fixed number of arguments',
  'web/src/text/tokenizer-classes.ts: normalizers(...QUOTES)': 'two normalizers',
  "web/src/text/tokenizer-classes.ts: normalizers(...(args.truthy('keep_accents', false) ? [] : [{ type: 'NFKD' }, { type: 'StripAccents' }]))":
    'at most two normalizers',
  "web/src/text/tokenizer-classes.ts: byteFallbackDecoder(...(addsPrefix(args) ? [{ type: 'Strip', content: ' ', start: 1, stop: 0 }] : []))":
    'at most one decoder',
  "web/src/text/tokenizer-classes.ts: normalizers(...(args.truthy('keep_accents', true) ? [] : [{ type: 'NFKD' }, { type: 'StripAccents' }]))":
    'at most two normalizers',
  'web/src/scale/work.ts: this.#idle.push(...this.#threads)': 'at most 256 threads',
  'web/src/worker/handler.ts: own[method](...args)': 'the arguments of a method',
  'web/src/worker/handler.ts: (model as unknown as Record<string, (...args: never[]) => Promise<unknown>>)[method]!(...args)':
    'the arguments of a method',
  'web/src/train/fit/fit-losses.ts: compute(...given)': 'the tensors of a loss, at most three, and its labels',
  'web/src/train/graph/operations.ts: forward(...constants)': 'the arguments of a function that the caller called',
  'web/src/train/matryoshka.ts: loss(...vectors.map((each) => slice(each, { axis: -1, end: dim })))':
    'the arguments of a loss that the caller gave',
  'web/src/train/runtime.ts: plain(...args.slice(0, at))': 'the arguments of a function',
};

/** A node of a syntax tree. */
interface Node {
  type: string;
  start: number;
  end: number;
  [key: string]: unknown;
}

const isNode = (value: unknown): value is Node => typeof (value as Node | null)?.type === 'string';

function* nodesIn(value: unknown): Generator<Node> {
  if (Array.isArray(value)) for (const entry of value) yield* nodesIn(entry);
  if (!isNode(value)) return;
  yield value;
  for (const child of Object.values(value)) if (typeof child === 'object') yield* nodesIn(child);
}

/** The faults of a source, with what is called. */
function faultsIn(source: string): string[] {
  const { program } = parseSync('a.ts', source);
  const text = ({ start, end }: Node) => source.slice(start, end).replaceAll(/\s+/g, ' ');
  const found: string[] = [];
  for (const node of nodesIn(program)) {
    if (node.type !== 'CallExpression' && node.type !== 'NewExpression') continue;
    const callee = node.callee as Node;
    const given = node.arguments as Node[];
    // Calls of `super` and of functions that are passed on take what their caller gave.
    for (const argument of given)
      if (argument.type === 'SpreadElement' && !isPassedOn(argument, callee, program as unknown as Node, source))
        found.push(`${text(callee)}(...${text(argument.argument as Node)})`);
    const isSetting = callee.type === 'MemberExpression' && (callee.property as Node).name === 'set';
    const [, value] = given;
    if (isSetting && value?.type === 'ArrayExpression' && (value.elements as (Node | null)[]).some(isCopyOfEntry))
      found.push(`${text(callee)}(..., ${text(value)})`);
  }
  return found;
}

/** Whether an element of an array copies what a map has: `...map.get(key)` or `...(map.get(key) ?? [])`. */
const isCopyOfEntry = (element: Node | null): boolean =>
  element?.type === 'SpreadElement' &&
  [...nodesIn(element.argument)].some(
    ({ type, property }) => type === 'MemberExpression' && (property as Node).name === 'get',
  );

/** Whether a spread passes the rest parameters of the function around it on, whose caller has given them as arguments. */
function isPassedOn(argument: Node, callee: Node, program: Node, source: string): boolean {
  const spread = argument.argument as Node;
  if (spread.type !== 'Identifier') return false;
  for (const node of nodesIn(program)) {
    if (!/Function|Method/.test(node.type) || node.start > callee.start || node.end < argument.end) continue;
    const rest = ((node.params as Node[] | undefined) ?? []).find(({ type }) => type === 'RestElement');
    if (rest && source.slice((rest.argument as Node).start).startsWith(spread.name as string)) return true;
  }
  return false;
}

describe('sources', () => {
  const files = execFileSync('git', ['ls-files', 'web/src/*.ts'], { cwd: root, encoding: 'utf8' }).trim().split('\n');
  const found = files.flatMap((file) =>
    faultsIn(readFileSync(join(root, file), 'utf8')).map((fault) => `${file}: ${fault}`),
  );

  it('do not spread lists into calls, nor copy them for each entry', () => {
    expect(files.length).toBeGreaterThan(300);
    expect(found.filter((fault) => !Object.hasOwn(SHORT, fault))).toEqual([]);
  });

  it('have the calls that are listed as short', () => {
    expect(Object.keys(SHORT).filter((fault) => !found.includes(fault))).toEqual([]);
  });
});

describe('the check', () => {
  it.each([
    ['Math.max(...row)', 'Math.max(...row)'],
    ['list.push(...more)', 'list.push(...more)'],
    ['list.push(\n  0,\n  ...more.slice(1),\n)', 'list.push(...more.slice(1))'],
    ['new Thing(...list)', 'Thing(...list)'],
    ['(rows: number[]) => Math.min(...rows)', 'Math.min(...rows)'],
    ['map.set(key, [...(map.get(key) ?? []), i])', 'map.set(..., [...(map.get(key) ?? []), i])'],
    ['groups.set(a.b, [...groups.get(a.b)!, i])', 'groups.set(..., [...groups.get(a.b)!, i])'],
  ])('finds %s', (source, fault) => expect(faultsIn(source)).toEqual([fault]));

  it.each([
    '[...a, ...b]',
    'f({ ...a })',
    'const f = (...args: number[]) => g(...args)',
    'class A { f(...args: number[]) { return this.g(1, ...args); } }',
    'map.set(key, [...list, i])',
  ])('admits %s', (source) => expect(faultsIn(source)).toEqual([]));
});
