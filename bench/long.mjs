/**
 * Time and memory per token of long documents: processor time of one run, and by how much it raises the process's memory, for 512, 2,048 and 8,192 tokens. Each row runs in a process of
 * its own, after runs of 64 tokens. Prints the rows of docs/performance.md. The encoders have random weights: MiniLM's shape with attention among all tokens (heed, and onnxruntime-web with
 * its fused operators); the same with `embedLong`, which splits the text into passages of 256 tokens; ModernBERT's shape with 6 layers, whose attention is limited to windows of 128 tokens
 * in 4 of them. Needs the packages of bench/package.json.
 *
 *     node bench/long.mjs [DIST] [--lengths 512,2048,8192] [--rows minilm,ort,long,modernbert]
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { ownTime } from './cpu-time.mjs';
import { makeBatch } from './harness.mjs';
import { encoderFiles, modernBertFiles } from './random-encoder.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    lengths: { type: 'string', default: '512,2048,8192' },
    rows: { type: 'string', default: 'minilm,ort,long,modernbert' },
    one: { type: 'string' },
  },
});
const dist = positionals[0] ?? fileURLToPath(new URL('../dist', import.meta.url));
const VOCAB = 3000;

async function heedRun(files, dtype) {
  const { load } = await import(pathToFileURL(`${dist}/index.js`).href);
  const heed = await load();
  const model = await heed.fromPretrained(files, { dtype });
  return (ids) => model.embed({ inputIds: [ids] });
}

/** A tokenizer of one word per id, for texts of any number of tokens. */
function wordTokenizer() {
  const vocab = Object.fromEntries(Array.from({ length: VOCAB }, (_, i) => [i === 0 ? '[UNK]' : `w${i}`, i]));
  const pre = { type: 'WhitespaceSplit' };
  return {
    version: '1.0',
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: pre,
    post_processor: null,
    model: { type: 'WordLevel', vocab, unk_token: '[UNK]' },
  };
}

const makers = {
  'minilm fp32': (length) => heedRun(encoderFiles(6, VOCAB, { positions: length }).files, 'fp32'),
  'minilm q8': (length) => heedRun(encoderFiles(6, VOCAB, { positions: length }).files, 'q8'),
  'ort fp32': async (length) => {
    const ort = await import('onnxruntime-web');
    ort.env.wasm.numThreads = 1;
    const { encoderGraph } = await import('./encoder-graph.mjs');
    const graph = encoderGraph(encoderFiles(6, VOCAB, { positions: length }));
    const { onnxContestant } = await import('./contestants/onnxruntime.mjs');
    const contestant = await onnxContestant({ ort, name: 'onnxruntime-web', graph });
    return (ids) => contestant.run([ids]);
  },
  'long q8': async () => {
    const { load, embedLong } = await import(pathToFileURL(`${dist}/index.js`).href);
    const heed = await load();
    const files = { ...encoderFiles(6, VOCAB).files, 'tokenizer.json': JSON.stringify(wordTokenizer()) };
    const model = await heed.fromPretrained(files, { dtype: 'q8' });
    return (ids) => embedLong(model, [ids.map((id) => `w${id}`).join(' ')], { maxTokens: 256 });
  },
  'modernbert fp32': (length) => heedRun(modernBertFiles(6, VOCAB, length).files, 'fp32'),
  'modernbert q8': (length) => heedRun(modernBertFiles(6, VOCAB, length).files, 'q8'),
};
const LABELS = {
  minilm: 'heed, MiniLM',
  ort: 'onnxruntime-web, MiniLM',
  long: 'heed, MiniLM with embedLong',
  modernbert: 'heed, ModernBERT',
};

/** The memory of the process in MB: now, or at most since resetPeak(). */
const memory = (field) => Number(readFileSync('/proc/self/status', 'utf8').match(`${field}:\\s*(\\d+)`)[1]) / 1024;
const resetPeak = () => writeFileSync('/proc/self/clear_refs', '5');

if (values.one) {
  const [name, length] = [values.one, Number(values.lengths)];
  const run = await makers[name](length);
  const idsOf = (count) => makeBatch([1, count], VOCAB)[0];
  for (let i = 0; i < 20; i++) await run(idsOf(64));
  resetPeak();
  const before = memory('VmRSS');
  const runs = [];
  for (let i = 0; i < (length > 4096 ? 1 : 3); i++) {
    const start = ownTime();
    await run(idsOf(length));
    runs.push(ownTime() - start);
  }
  console.log(JSON.stringify({ ms: Math.min(...runs), mb: memory('VmHWM') - before }));
  process.exit(0);
}

const lengths = values.lengths.split(',');
console.log(
  `| ms of processor time, and KB, per token | ${lengths.map((l) => Number(l).toLocaleString('en')).join(' | ')} |`,
);
console.log(`| --- |${' --- |'.repeat(lengths.length)}`);
for (const name of Object.keys(makers).filter((each) => values.rows.split(',').includes(each.split(' ')[0]))) {
  const cells = lengths.map((length) => {
    try {
      const options = { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] };
      const child = [fileURLToPath(import.meta.url), dist, '--one', name, '--lengths', length];
      const { ms, mb } = JSON.parse(execFileSync(process.execPath, child, options).trim().split('\n').at(-1));
      return `${(ms / length).toFixed(3)}, ${((1024 * mb) / length).toFixed(0)}`;
    } catch (error) {
      return `fails: ${String(error.stderr ?? error)
        .match(/\w*(?:Error|failed|abort)[^\n]*/i)?.[0]
        .slice(0, 60)}`;
    }
  });
  const [kind, dtype] = name.split(' ');
  console.log(`| ${LABELS[kind]}, ${dtype} | ${cells.join(' | ')} |`);
}
