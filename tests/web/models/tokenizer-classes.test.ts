/**
 * The tokenizer classes of transformers with each of their settings, and the files that AutoTokenizer reads beside
 * tokenizer.json (tests/fixtures/models/tokenizer_classes.py).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Settings } from '../../../web/src/io/settings.js';
import { Tokenizer } from '../../../web/src/loading/own-tokenizer.js';
import { tokenizerOf } from '../../../web/src/text/class-settings.js';
import { TextTokenizer } from '../../../web/src/text/tokenizer.js';
import { fixtures } from './fixtures.js';

type Json = Record<string, unknown>;
/** Ids, the starts and ends of tokens in code points, and types. */
type Row = [ids: number[], offsets: number[], types: number[]];
interface Case {
  base: string;
  files: Record<string, Json>;
  /** The key of the rows, or the message of transformers. */
  result: string;
}

const { texts, pairs, bases, results, cases } = JSON.parse(
  readFileSync(join(fixtures, 'tokenizer-classes.json'), 'utf8'),
) as {
  texts: string[];
  pairs: [string, string][];
  bases: Record<string, Json>;
  results: Record<string, Row[]>;
  cases: Case[];
};

async function rowsOf({ base, files }: Case): Promise<Row[]> {
  const all = { ...files, 'tokenizer.json': bases[base]! };
  const open = (name: string) => (name in all ? new Settings(all[name as keyof typeof all], name) : undefined);
  const settings = open('tokenizer_config.json');
  const made = await tokenizerOf(open('tokenizer.json')!, {
    settings,
    config: open('config.json'),
    read: async (name) => open(name) ?? null,
  });
  const tokenizer = new Tokenizer(await TextTokenizer.open(made.json, settings, {}, 'all', Infinity, made), Infinity);
  const inputs: [string, string?][] = [...texts.map((text): [string] => [text]), ...pairs];
  return inputs.map(([text, pair]): Row => {
    const { inputIds, offsets, tokenTypeIds } = tokenizer.tokenize(text, {
      ...(pair !== undefined && { textPairs: pair }),
    });
    return [inputIds[0]!, offsets[0]!.flat(), tokenTypeIds[0]!];
  });
}

/** What a class is called in a case, for the name of its test. */
const nameOf = ({ files }: Case) =>
  String(files['tokenizer_config.json']?.tokenizer_class ?? files['config.json']?.model_type);

const byName = new Map<string, Case[]>();
for (const each of cases)
  if (each.result in results) byName.set(nameOf(each), [...(byName.get(nameOf(each)) ?? []), each]);

test.each([...byName.keys()])('%s', async (name) => {
  for (const each of byName.get(name)!) {
    const rows = await rowsOf(each).catch((error: Error) => error);
    const what = JSON.stringify({ base: each.base, files: each.files });
    if (rows instanceof Error) {
      expect(rows, what).toMatchObject({
        code: 'UNSUPPORTED',
        message: expect.stringMatching(/tokenizer_config\.json: \w+: /),
      });
      expect(rows.message, what).toContain('heed does not');
    } else expect(rows, what).toEqual(results[each.result]);
  }
});
