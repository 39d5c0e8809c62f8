/** Turns what was measured into bench/RESULTS.md: tables, and a chart that GitHub draws from its text. */

import { median, speedup } from './harness.mjs';
import { pageLoadReport } from './page-load.mjs';
import { pageReport } from './page-responsiveness.mjs';
import { trainingReport } from './training.mjs';

const PLACES = ['node24', 'chromium', 'node20'];
const ours = (timings, dtype, build) => timings.find((t) => t.name === `heed ${dtype} (${build})`);
const isInt8 = (name) => /int8|q8/.test(name);
const ratio = ({ median: m, low, high }) => `${m.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
const table = (head, rows) =>
  [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n');

function latencyTable({ latency }) {
  const shapes = latency.map(({ shape }) => shape.join(' x '));
  const names = latency[0].timings.map((t) => t.name);
  return table(
    ['ms', ...shapes, 'cosine to heed fp32'],
    names.map((name, k) => [
      name,
      ...latency.map(({ timings }) => median(timings[k].ms).toFixed(1)),
      latency[1].timings[k].agreement.cosine.toFixed(6),
    ]),
  );
}

/** How many times as fast heed is as the fastest of a peer's graphs, shape by shape. */
function speedupTable({ latency }) {
  const rows = [];
  for (const [dtype, int8] of [
    ['fp32', false],
    ['q8', true],
  ]) {
    for (const build of ['relaxed-simd', 'simd128']) {
      for (const peer of ['onnxruntime-web', 'tfjs-wasm', 'jax-js', 'onnxruntime-node', 'heed fp32']) {
        const cells = latency.map(({ timings }) => {
          const mine = ours(timings, dtype, build);
          const candidates = timings.filter((t) =>
            peer === 'heed fp32'
              ? int8 && t.name === `heed fp32 (${build})`
              : t.name.startsWith(peer) && isInt8(t.name) === int8,
          );
          if (!mine || candidates.length === 0) return null;
          return ratio(
            speedup(
              mine,
              candidates.reduce((a, b) => (median(a.ms) <= median(b.ms) ? a : b)),
            ),
          );
        });
        if (cells.every(Boolean))
          rows.push([
            `heed ${dtype} (${build})`,
            peer === 'heed fp32' ? peer : `${peer} ${int8 ? 'int8' : 'fp32'}`,
            ...cells,
          ]);
      }
    }
  }
  return table(['times as fast', 'as', ...latency.map(({ shape }) => shape.join(' x '))], rows);
}

/** DeBERTa's and EmbeddingGemma's shapes. */
function familiesTable({ results }) {
  const names = [...new Set(results.flatMap(({ rows }) => rows.map(({ name }) => name)))].slice(1);
  return table(
    ['one thread; ms, and how many times as fast heed is', '', 'texts x tokens', 'heed', ...names],
    results.map(({ title, dtype, shape, rows: [ours, ...peers] }) => [
      title,
      dtype,
      shape.join(' x '),
      ours.ms.toFixed(1),
      ...names.map((name) => {
        const peer = peers.find((each) => each.name === name);
        return peer ? `${peer.ms.toFixed(1)}, ${ratio(peer.heedIs)}` : '';
      }),
    ]),
  );
}

function corpusReport({ texts, slice, peer, rows }, place) {
  const name = peer.replace('transformers.js q8, ', 'transformers.js in ');
  return [
    `### ${texts} real sentences of mixed lengths, ${place}`,
    `Each round embeds ${slice} of them with every contestant. transformers.js has its default number of threads in Node, and one in Chromium, whose page is not cross-origin isolated.`,
    table(
      ['', 'texts/s', `as fast as ${name}`, 'cosine to heed fp32'],
      rows.map((r) => [r.name, r.textsPerSecond.toFixed(0), ratio(r.ratio), r.cosine.toFixed(6)]),
    ),
  ].join('\n\n');
}

function chart({ place, latency }) {
  const { timings, shape } = latency[1];
  const shown = timings.filter((t) => !t.name.includes('simd128'));
  const labels = shown.map((t) => `"${t.name.replace(/ \(.*\)/, '').replace('onnxruntime', 'ort')}"`);
  return [
    '```mermaid',
    'xychart-beta',
    `  title "${shape.join(' x ')} tokens, ${place}: ms, lower is better"`,
    `  x-axis [${labels.join(', ')}]`,
    '  y-axis "ms"',
    `  bar [${shown.map((t) => median(t.ms).toFixed(1)).join(', ')}]`,
    '```',
  ].join('\n');
}

/** @returns {string} Markdown */
export function report(results) {
  const places = PLACES.map((key) => results[key]).filter(Boolean);
  const processor = places.find((p) => p.processor)?.processor ?? 'unknown processor';
  const parts = [
    '# heed compared with other libraries',
    `Measured on ${results.date}, ${processor}, by \`npm run bench\`, on one thread. The encoder has MiniLM-L6's shape (6 layers, width 384, 12 heads, feed-forward width 1536) and the same
random weights in every library. Shapes are texts x tokens. The libraries take turns within one process or page, so that noise of the machine affects all of them. Times are
medians; ratios are medians over rounds with their quartiles, relative to the fastest graph of the other library (its standard export or its fused operators).
The cosine compares each output with heed's fp32 output: int8 differs because of rounding, fp32 must not differ. In Node, transformers.js runs onnxruntime's native
library; in Chromium, its WebAssembly build.`,
  ];
  for (const p of places) {
    parts.push(`## ${p.place}`);
    if (p.latency) parts.push(chart(p), latencyTable(p), speedupTable(p));
    if (p.families) parts.push(`### Other families, ${p.place}`, familiesTable(p.families));
    if (p.corpus) parts.push(corpusReport(p.corpus, p.place));
  }
  if (results.start) {
    const { rows, ratios } = results.start;
    parts.push(
      '## Cold start, Node 24',
      'Time from import to the first vector (16 tokens) in a fresh process, with the model file already in memory. The peak is the resident memory of the process, including the model file.',
      table(
        ['', 'ms', 'peak MB'],
        rows.map((r) => [r.name, r.ms.toFixed(0), r.peakMB.toFixed(0)]),
      ),
      `heed starts ${ratios.fp32.toFixed(1)} times as fast in fp32 and ${ratios.int8.toFixed(1)} times as fast in int8.`,
    );
  }
  parts.push(
    '## Download size',
    'JavaScript and WebAssembly that a page downloads for one encoder, without the model, compressed with Brotli, in KB of 1000 bytes. heed and transformers.js include their tokenizers.',
    '<!-- figure:downloads --><!-- /figure -->', // `npm run record` writes the table
  );
  if (results.training) parts.push(trainingReport(results.training));
  if (results.page) parts.push(pageReport(results.page));
  if (results.load) parts.push(pageLoadReport(results.load));
  return `${parts.join('\n\n')}\n`;
}
