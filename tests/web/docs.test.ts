/** Runs the examples of docs/ and of the README and compares what Node prints for them, or what comments say, with the page. */
import * as fs from 'node:fs';
import * as os from 'node:os';
import { format } from 'node:util';
import * as heed from 'heed';
import * as heedCorpus from 'heed/corpus';
import * as heedDraw from 'heed/draw';
import * as heedEvaluation from 'heed/evaluation';
import * as heedLens from 'heed/lens';
import * as heedTrain from 'heed/train';
import * as heedUtil from 'heed/util';
import { describe, expect, it } from 'vitest';
import { fixture, fixtures } from './models/fixtures.js';
import { tinyClip, tinyModel } from './models/tiny.js';

const folder = new URL('../../docs/', import.meta.url);
const documents = fs.readdirSync(folder).filter((name) => name.endsWith('.md'));
const course = fs.readdirSync(new URL('course/', folder)).filter((name) => name.endsWith('.md'));
const pages = [...documents, ...course.map((name) => `course/${name}`), '../web/model/README.md'];
const readme = '../README.md';

interface Example {
  code: string;
  /** The output that the page shows. */
  printed: string;
}

function examplesOf(page: string): Example[] {
  const text = fs.readFileSync(new URL(page, folder), 'utf8');
  return [...text.matchAll(/```js\n(.*?)```\n(?:\n```text\n(.*?)```)?/gs)].map(([, code, printed]) => ({
    code: code!,
    printed: printed ?? '',
  }));
}

/** A line `shape; // [2, 256]` states the expression's value, an array of numbers. */
const claim = /^(\S.*); \/\/ (\[[\d, ]+\]).*$/gm;

/** A line `console.log(text); // Hello` states its output. */
const remark = /^console\.log\((.*)\); \/\/ (.*)$/gm;

/** Placeholder paths of checkpoints in the pages. */
const folders = /'\/models\/[\w.-]+\/'/g;

/** A canvas on which drawing has no effect; tests/web/draw.browser.test.ts draws on real ones. */
class FakeCanvas {
  width = 0;
  height = 0;
  readonly #context = {
    measureText: () => ({ width: 1 }),
    ...noOps(['fillRect', 'fillText', 'rotate', 'setTransform']),
  };
  getContext() {
    return this.#context;
  }
}

function noOps(names: string[]) {
  return Object.fromEntries(names.map((name) => [name, () => {}]));
}

/** The tiny model with the labels of natural language inference. */
function entailment() {
  const files = tinyModel();
  const config = JSON.parse(new TextDecoder().decode(files['config.json'] as Uint8Array));
  const id2label = { 0: 'contradiction', 1: 'neutral', 2: 'entailment' };
  return { ...files, 'config.json': JSON.stringify({ ...config, id2label }) };
}

/** A fake of the image decoder in docs/images.md: every file is a grey image. */
function fakeSharp() {
  const decoder = {
    toColourspace: () => decoder,
    removeAlpha: () => decoder,
    raw: () => decoder,
    toBuffer: async () => ({ data: new Uint8Array(3 * 8 * 6).fill(99), info: { width: 8, height: 6 } }),
  };
  return decoder;
}

/** Runs the blocks of a page as one script, because later ones use variables of earlier ones. */
async function run(examples: Example[]): Promise<string[]> {
  const printed: string[] = examples.map(() => '');
  // Formats values like Node's console.log.
  const log = (block: number, ...values: unknown[]) => {
    printed[block] += `${format(...values)}\n`;
  };
  const script = examples
    .map(({ code }, i) =>
      code
        .replaceAll(remark, 'expect(format($1)).toBe(String.raw`$2`);')
        .replaceAll('console.log(', `log(${i}, `)
        .replaceAll(claim, 'expect($1, String.raw`$1`).toEqual($2);')
        .replaceAll(/'\/models\/clip[\w.-]*\/'/g, 'clip')
        .replaceAll("'/models/vit-base-patch16-224/'", 'vit')
        .replaceAll("'/models/nli/'", 'nli')
        .replaceAll("'/models/gliner/'", 'gliner')
        .replaceAll("'/models/cross-encoder/'", 'crossEncoderFiles')
        .replaceAll(folders, 'folder')
        .replaceAll(
          /^import (\{.*\}) from '(heed(?:\/[\w-]+)?|node:\w+)';$/gm,
          (_, names: string, module: string) => `const ${names.replaceAll(' as ', ': ')} = imported['${module}'];`,
        )
        .replace(/^import sharp from 'sharp';$/m, 'const { sharp } = imported;'),
    )
    .join('\n');
  const main = new Function(
    'imported',
    'log',
    'format',
    'expect',
    'folder',
    'clip',
    'vit',
    'nli',
    'gliner',
    'crossEncoderFiles',
    'document',
    `return (async () => {${script}\n})()`,
  );
  const entries = {
    heed,
    'heed/train': heedTrain,
    'heed/corpus': heedCorpus,
    'heed/draw': heedDraw,
    'heed/util': heedUtil,
    'heed/lens': heedLens,
    'heed/evaluation': heedEvaluation,
    'node:fs': fs,
    'node:os': os,
    sharp: fakeSharp,
  };
  const { folder: vit } = fixture('vit-labels');
  const files = [tinyModel(), tinyClip(), vit, entailment(), `${fixtures}gliner`, tinyModel('bert-one-label')];
  await main(entries, log, format, expect, ...files, { querySelector: () => new FakeCanvas() });
  return printed;
}

describe.each(pages.filter((page) => examplesOf(page).length > 0))('docs/%s', (page) => {
  it('prints what it says', async () => {
    const examples = examplesOf(page);
    expect(await run(examples)).toEqual(examples.map(({ printed }) => printed));
  });
});

describe('README.md', () => {
  // tests/package/readme.test.ts runs the example that downloads a model.
  const examples = examplesOf(readme).filter(({ code }) => !code.includes('remoteHost'));

  it('has examples, with results', () => {
    expect(examples.length).toBeGreaterThan(1);
    for (const { code } of examples)
      expect(Math.max(code.search(claim), code.search(remark))).toBeGreaterThanOrEqual(0);
  });

  // Each example is a complete script.
  it.each(examples)('example %# does what it says', async (example) => {
    expect(await run([example])).toEqual([example.printed]);
  });
});

it('every page is in the index', () => {
  const index = fs.readFileSync(new URL('README.md', folder), 'utf8');
  for (const page of documents) if (page !== 'README.md') expect(index).toContain(`(${page})`);
  expect(index).toContain('(course/README.md)');
});

it('every chapter of the course is in its index, and has a formula, a figure, the reason, at least three exercises and the cost', () => {
  const index = fs.readFileSync(new URL('course/README.md', folder), 'utf8');
  const figures = new Set<string>();
  for (const page of course.filter((name) => /^\d\d-/.test(name))) {
    expect(index).toContain(`(${page})`);
    const text = fs.readFileSync(new URL(`course/${page}`, folder), 'utf8');
    expect(text).toMatch(/^\$\$.+\$\$$/m);
    expect(text).toMatch(/^## (Why|Is it)/m);
    const exercises = text.match(/^\*\*\d\.\*\* /gm) ?? [];
    expect(exercises.length).toBeGreaterThanOrEqual(3);
    expect(text.match(/^<details><summary>Solution<\/summary>$/gm)).toHaveLength(exercises.length);
    expect(text).toMatch(/^## Cost$/m);
    expect(text).toMatch(/^\*\*Objectives:\*\* .+ \*\*Before:\*\* .+ \*\*Time:\*\* \d+ minutes\.$/m);
    expect(text).toMatch(/^## References\n\n- .*https:/m);
    expect(text).toMatch(/^(Previous: .* · )?\[Index\]\(README\.md\)( · Next: .*)?$/m);
    const own = [...text.matchAll(/!\[[^\]]{20,}\]\((figures\/[\w-]+\.svg)\)/g)].map(([, file]) => file!);
    expect(own.length).toBeGreaterThan(0);
    for (const file of own) figures.add(file);
    for (const [, code] of text.matchAll(/```js\n(.*?)```/gs))
      expect(code!.trim().split('\n').length).toBeLessThanOrEqual(15);
  }
  const files = fs.readdirSync(new URL('course/figures/', folder)).map((name) => `figures/${name}`);
  expect([...figures].sort()).toEqual(files.sort());
});
