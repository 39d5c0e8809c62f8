/**
 * Shows what gpu.mjs measures. Parameters of the address: `shapes` (1x16,1x128,8x128,1x512), `seconds` for each shape, `layers` and `width` of the encoder, `timed`, which
 * times a software adapter, too, and `start`, which starts at once.
 */

import { browserName, describeAdapter, measure, rowOf } from './gpu.mjs';
import { SHAPES } from './harness.mjs';

const element = (id) => document.getElementById(id);
const given = new URLSearchParams(location.search);
const number = (name, value) => Number(given.get(name) ?? value);
const shapes =
  given
    .get('shapes')
    ?.split(',')
    .map((shape) => shape.split('x').map(Number)) ?? SHAPES;
const log = (line) => {
  element('status').textContent = line;
};
const warn = (line) => element('warnings').append(Object.assign(document.createElement('li'), { textContent: line }));

/** onnxruntime-web, if this folder has it. */
async function onnxruntime() {
  try {
    const ort = await import('./onnxruntime/ort.webgpu.bundle.min.mjs');
    ort.env.wasm.wasmPaths = {
      wasm: new URL('onnxruntime/ort-wasm-simd-threaded.asyncify.wasm', location.href).href,
    };
    ort.env.wasm.numThreads = 1;
    ort.env.webgpu.powerPreference = 'high-performance';
    return ort;
  } catch (error) {
    warn(`without onnxruntime-web: ${error.message}`);
    return null;
  }
}

function showAdapter(adapter) {
  const lines = adapter
    ? {
        ...adapter,
        isSoftware: adapter.isSoftware ? 'yes: a fallback adapter, whose times say nothing about GPUs' : 'no',
        features: adapter.features.join(', '),
      }
    : { adapter: 'none: this browser offers no WebGPU adapter' };
  for (const [name, value] of Object.entries(lines)) {
    const [term, description] = [document.createElement('dt'), document.createElement('dd')];
    term.textContent = name === 'isSoftware' ? 'software' : name;
    description.textContent = value || '–';
    element('adapter').append(term, description);
  }
}

function showTimes(results) {
  const table = document.createElement('table');
  const add = (tag, cells) => {
    const row = table.insertRow();
    for (const text of cells) row.append(Object.assign(document.createElement(tag), { textContent: text }));
  };
  add('th', ['', 'ms', 'speed of heed on WebGPU relative to it', 'minimum cosine']);
  for (const { shape, contestants } of results)
    for (const { name, ms, speedup, cosine } of contestants)
      add('td', [
        `${shape.join(' x ')}, ${name}`,
        ms?.toFixed(2) ?? 'not timed',
        speedup ? `${speedup.median.toFixed(2)} (${speedup.low.toFixed(2)}–${speedup.high.toFixed(2)})` : '–',
        cosine.toFixed(7),
      ]);
  element('times').replaceChildren(table);
}

async function run(adapter) {
  element('start').disabled = true;
  try {
    const results = await measure({
      heed: await import('./heed/index.js'),
      ort: await onnxruntime(),
      shapes,
      seconds: number('seconds', 8),
      timed: !adapter.isSoftware || given.has('timed'),
      size: { layers: number('layers', 6), width: number('width', 384) },
      log,
      warn,
    });
    showTimes(results);
    const date = new Date().toISOString().slice(0, 10);
    element('row').textContent = rowOf({ adapter, browser: browserName(navigator), results, date });
    element('result').hidden = false;
    log('done');
  } catch (error) {
    console.error(error);
    log(`failed: ${error.message}`);
  }
  element('start').disabled = false;
}

const adapter = await describeAdapter();
showAdapter(adapter);
element('start').disabled = !adapter;
element('start').addEventListener('click', () => run(adapter));
element('copy').addEventListener('click', () => navigator.clipboard.writeText(element('row').textContent));
if (adapter && given.has('start')) await run(adapter);
