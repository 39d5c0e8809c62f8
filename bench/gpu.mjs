/** heed on WebGPU beside heed in WebAssembly and onnxruntime-web on WebGPU, in a page: gpu-page.mjs shows the results. */

import { heedContestant } from './contestants/heed.mjs';
import { onnxContestant } from './contestants/onnxruntime.mjs';
import { encoderGraph } from './encoder-graph.mjs';
import { agreement, makeBatch, median, race, speedup } from './harness.mjs';
import { encoderFiles } from './random-encoder.mjs';

export const HEED = 'heed, WebGPU';
const HALF = 'heed, WebGPU, weights in fp16';
const WASM = 'heed, WebAssembly';
const PEER = 'onnxruntime-web, WebGPU';

/** What the browser says about the adapter that heed takes; null if there is none. */
export async function describeAdapter() {
  const adapter = await navigator.gpu?.requestAdapter({ powerPreference: 'high-performance' });
  if (!adapter) return null;
  const { info, features, limits } = adapter;
  const { vendor, architecture, device, description } = info ?? {};
  return {
    name: [...new Set([vendor, architecture, device, description])].filter(Boolean).join(' ') || 'no description',
    vendor,
    architecture,
    device,
    description,
    isSoftware: info?.isFallbackAdapter ?? adapter.isFallbackAdapter ?? false,
    features: [...features].sort(),
    maxBufferSize: limits.maxBufferSize,
    maxStorageBufferBindingSize: limits.maxStorageBufferBindingSize,
  };
}

/** "Chrome 140, Linux" */
export function browserName({ userAgent, userAgentData, platform }) {
  const [, name, version] = userAgent.match(/(Firefox|Edg|Chrome)\/(\d+)/) ?? userAgent.match(/(Version)\/(\d+)/) ?? [];
  const names = { Edg: 'Edge', Version: 'Safari' };
  return `${name ? `${names[name] ?? name} ${version}` : userAgent}, ${userAgentData?.platform || platform}`;
}

/** The minimum cosine between a row of `a` and the same row of `b`, which detects a single wrong text. */
function leastCosine(a, b, width) {
  if (a.length !== b.length) return Number.NaN;
  let least = 1;
  for (let at = 0; at < a.length; at += width) {
    const { cosine } = agreement(a.subarray(at, at + width), b.subarray(at, at + width));
    if (!(cosine >= least)) least = cosine;
  }
  return least;
}

/** Those that can be made; the others' errors go to `warn`. */
async function makeContestants({ heed, ort, encoder, log, warn }) {
  const { files } = encoder;
  const make = {
    [WASM]: () => heedContestant({ heed, dtype: 'fp32', files, device: 'wasm' }),
    [HEED]: () => heedContestant({ heed, dtype: 'fp32', files, device: 'webgpu' }),
    [HALF]: () => heedContestant({ heed, dtype: 'fp16', files, device: 'webgpu' }),
    ...(ort && {
      [PEER]: () => onnxContestant({ ort, graph: encoderGraph(encoder), session: { executionProviders: ['webgpu'] } }),
    }),
  };
  const contestants = [];
  for (const [name, open] of Object.entries(make)) {
    log(`loading ${name}`);
    try {
      contestants.push({ ...(await open()), name });
    } catch (error) {
      warn(`${name}: ${error.message}`);
      if (name === WASM) throw error;
    }
  }
  return contestants;
}

/**
 * @param {object} options
 * @param {any} options.heed the imported package
 * @param {any} [options.ort] onnxruntime-web
 * @param {[number, number][]} options.shapes texts x tokens
 * @param {number} options.seconds per shape
 * @param {boolean} options.timed false: vectors are compared, and nothing is timed
 * @param {{ layers: number, width: number }} options.size
 * @param {(line: string) => void} options.log
 * @param {(line: string) => void} options.warn
 * @returns {Promise<{ shape: [number, number], contestants: { name: string, cosine: number, ms?: number, speedup?: object }[] }[]>} `cosine`: the least of any row and that
 *   of heed in WebAssembly; `speedup`: the speed of heed on WebGPU relative to this one
 */
export async function measure({ heed, ort, shapes, seconds, timed, size, log, warn }) {
  const encoder = encoderFiles(size.layers, 3000, { width: size.width });
  const contestants = await makeContestants({ heed, ort, encoder, log, warn });
  const results = [];
  for (const shape of shapes) {
    const batch = makeBatch(shape, encoder.vocab);
    const outputs = [];
    for (const { name, run } of contestants) {
      log(`${shape.join(' x ')}: comparing ${name}`);
      outputs.push(Float32Array.from(await run(batch)));
    }
    const cosines = outputs.map((output) => leastCosine(outputs[0], output, size.width));
    if (timed) log(`${shape.join(' x ')}: timing`);
    const timings = timed ? await race(contestants, batch, { seconds, warmup: Math.min(1, seconds) }) : null;
    const ours = timings?.find(({ name }) => name === HEED);
    results.push({
      shape,
      contestants: contestants.map(({ name }, k) => ({
        name,
        cosine: cosines[k],
        ms: timings && median(timings[k].ms),
        speedup: ours && name !== HEED ? speedup(ours, timings[k]) : null,
      })),
    });
  }
  for (const { dispose } of contestants) await dispose();
  return results;
}

const ratio = (found) =>
  found ? `${found.median.toFixed(2)} (${found.low.toFixed(2)}–${found.high.toFixed(2)})` : '–';

/** The row of bench/GPU.md for these results. */
export function rowOf({ adapter, browser, results, date }) {
  const of = (contestants, name) => contestants.find((each) => each.name === name);
  const cells = results.map(({ contestants }) => {
    const ours = of(contestants, HEED);
    if (!ours) return 'failed';
    if (ours.ms === null) return 'compared';
    const against = [WASM, PEER].map((name) => ratio(of(contestants, name)?.speedup));
    const time = (ms) => ms?.toFixed(ms < 10 ? 2 : 1) ?? '–';
    return `${time(ours.ms)} ms (${time(of(contestants, HALF)?.ms)} in fp16), ${against.join(', ')}`;
  });
  const cosine = (name) => {
    const all = results.map(({ contestants }) => of(contestants, name)?.cosine ?? null);
    return all.includes(null) ? '–' : Math.min(...all).toFixed(7);
  };
  const about = `${adapter.name}${adapter.isSoftware ? ' (software: correctness only)' : ''}`;
  return `| ${[about, browser, ...cells, cosine(HEED), cosine(HALF), cosine(PEER), date].join(' | ')} |`;
}
