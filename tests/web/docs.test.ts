/** Runs the examples of docs/ and compares what they print with the page. */
import { readdirSync, readFileSync } from 'node:fs';
import * as heed from 'heed';
import { describe, expect, it } from 'vitest';

const folder = new URL('../../docs/', import.meta.url);
const pages = readdirSync(folder).filter((name) => name.endsWith('.md'));

interface Example {
  code: string;
  /** What the page says that it prints. */
  printed: string;
}

function examplesOf(page: string): Example[] {
  const text = readFileSync(new URL(page, folder), 'utf8');
  return [...text.matchAll(/```js\n(.*?)```\n(?:\n```text\n(.*?)```)?/gs)].map(([, code, printed]) => ({
    code: code!,
    printed: printed ?? '',
  }));
}

/** Runs the blocks of a page as one script, since later ones use what earlier ones made. */
async function run(examples: Example[]): Promise<string[]> {
  const printed: string[] = examples.map(() => '');
  const log = (block: number, ...values: unknown[]) => {
    const shown = values.map((value) => (Array.isArray(value) ? `[${value.join(', ')}]` : String(value)));
    printed[block] += `${shown.join(' ')}\n`;
  };
  const script = examples
    .map(({ code }, i) =>
      code
        .replaceAll('console.log(', `log(${i}, `)
        .replaceAll(/^import (\{.*\}) from 'heed';$/gm, 'const $1 = imported;'),
    )
    .join('\n');
  await new Function('imported', 'log', `return (async () => {${script}\n})()`)(heed, log);
  return printed;
}

describe.each(pages.filter((page) => examplesOf(page).length > 0))('docs/%s', (page) => {
  it('prints what it says', async () => {
    const examples = examplesOf(page);
    expect(await run(examples)).toEqual(examples.map(({ printed }) => printed));
  });
});

it.each(pages)('docs/%s links to pages that are there', (page) => {
  const text = readFileSync(new URL(page, folder), 'utf8');
  for (const [, target] of text.matchAll(/\]\((?!https:)([^)#]+)/g)) expect(pages).toContain(target);
});

it('every page is in the index', () => {
  const index = readFileSync(new URL('README.md', folder), 'utf8');
  for (const page of pages) if (page !== 'README.md') expect(index).toContain(`(${page})`);
});
