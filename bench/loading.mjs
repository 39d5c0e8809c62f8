/**
 * What loading MiniLM's shape as 'q8' costs: from its fp32 folder, which quantizes at load, and from its int8 and 4-bit folders, without and with a WordPiece tokenizer of as many
 * words. Processor time of the whole process (threads that read files, compile and collect garbage included), as the least of many: of the first load in a new process, and of further
 * loads in the same one. The folders take turns. Needs the fp32 folder that models.py writes; makes the others.
 *
 *     node bench/loading.mjs [--rounds 15] [--dist DIST] [--node PATH]
 */

import { execFileSync } from 'node:child_process';
import { cp, mkdir, stat, writeFile } from 'node:fs/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { median } from './harness.mjs';

const { values, positionals } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    dist: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) },
    node: { type: 'string', default: process.execPath },
  },
  allowPositionals: true,
});
const here = fileURLToPath(import.meta.url);
const root = fileURLToPath(new URL('../build/bench/', import.meta.url));
const FOLDERS = ['minilm', 'minilm-int8', 'minilm-int4'];
const WORDS = 30522;
/** Further loads in a process. */
const REPEATS = 6;

/** Milliseconds of processor time of loads in this process. */
async function child(folder) {
  const { load } = await import(pathToFileURL(`${values.dist}/index.js`).href);
  const heed = await load();
  const times = [];
  for (let i = 0; i <= REPEATS; i++) {
    const before = process.cpuUsage();
    const model = await heed.fromPretrained(folder, { dtype: 'q8' });
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / 1000);
    model.dispose();
  }
  console.log(JSON.stringify({ first: times[0], least: Math.min(...times.slice(1)) }));
}

/** A tokenizer.json of WordPiece with WORDS words of 3 to 9 letters. */
function tokenizer() {
  const special = ['[PAD]', '[UNK]', '[CLS]', '[SEP]', '[MASK]'];
  const words = new Set(special);
  let state = 12345;
  const next = (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  while (words.size < WORDS) {
    const letters = Array.from({ length: 3 + next(7) }, () => String.fromCharCode(97 + next(26))).join('');
    words.add(next(5) === 0 ? `##${letters}` : letters);
  }
  const flags = { single_word: false, lstrip: false, rstrip: false, normalized: false, special: true };
  return JSON.stringify({
    version: '1.0',
    added_tokens: special.map((content, id) => ({ id, content, ...flags })),
    normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, lowercase: true },
    pre_tokenizer: { type: 'BertPreTokenizer' },
    post_processor: {
      type: 'TemplateProcessing',
      single: [
        { SpecialToken: { id: '[CLS]', type_id: 0 } },
        { Sequence: { id: 'A', type_id: 0 } },
        { SpecialToken: { id: '[SEP]', type_id: 0 } },
      ],
      pair: [],
      special_tokens: {
        '[CLS]': { id: '[CLS]', ids: [2], tokens: ['[CLS]'] },
        '[SEP]': { id: '[SEP]', ids: [3], tokens: ['[SEP]'] },
      },
    },
    decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    model: {
      type: 'WordPiece',
      unk_token: '[UNK]',
      continuing_subword_prefix: '##',
      max_input_chars_per_word: 100,
      vocab: Object.fromEntries([...words].map((word, id) => [word, id])),
    },
  });
}

const exists = (path) => stat(path).then(Boolean, () => false);

/** The folders with and without a tokenizer, made where they are missing. */
async function folders() {
  const { load } = await import(pathToFileURL(`${values.dist}/index.js`).href);
  const heed = await load();
  const bare = `${root}loading/`;
  for (const name of FOLDERS) {
    if (await exists(`${bare}${name}-words/tokenizer.json`)) continue;
    const out = `${bare}${name}`;
    if (name === 'minilm') {
      await mkdir(out, { recursive: true });
      for (const file of ['config.json', 'model.safetensors']) await cp(`${root}minilm/${file}`, `${out}/${file}`);
    } else await heed.quantize(`${bare}minilm`, { out, ...(name.endsWith('int4') && { tables: 'int4' }) });
    await cp(out, `${out}-words`, { recursive: true });
    await writeFile(`${out}-words/tokenizer.json`, tokenizer());
  }
  heed.dispose();
  return FOLDERS.flatMap((name) => [`${bare}${name}`, `${bare}${name}-words`]);
}

if (positionals[0]) await child(positionals[0]);
else {
  const all = await folders();
  const times = new Map(all.map((folder) => [folder, { first: [], least: [] }]));
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [i] of all.entries()) {
      const folder = all[(i + round) % all.length];
      const given = [here, '--dist', values.dist, folder];
      const { first, least } = JSON.parse(execFileSync(values.node, given, { encoding: 'utf8' }));
      times.get(folder).first.push(first);
      times.get(folder).least.push(least);
    }
  }
  const rows = all.map((folder) => {
    const { first, least } = times.get(folder);
    const fp32 = times.get(folder.endsWith('-words') ? all[1] : all[0]);
    const [a, b] = [Math.min(...first), Math.min(...least)];
    return {
      folder: folder.slice(root.length + 'loading/'.length),
      'first load, ms': a.toFixed(1),
      'median, ms': median(first).toFixed(1),
      'as fast': (Math.min(...fp32.first) / a).toFixed(2),
      'later loads, ms': b.toFixed(1),
      'as fast ': (Math.min(...fp32.least) / b).toFixed(2),
    };
  });
  console.table(rows);
}
