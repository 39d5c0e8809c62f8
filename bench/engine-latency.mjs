/** heed's default build beside onnxruntime-web, for the table of engines: in Node or in a page, with one number of threads per process or page. */

import { heedContestant } from './contestants/heed.mjs';
import { onnxContestant } from './contestants/onnxruntime.mjs';
import { makeBatch, median, race, SHAPES, speedup } from './harness.mjs';

/** heed's precision -> the graphs of onnxruntime-web that it is compared with. */
const GRAPHS = { fp32: ['model', 'model_fused'], q8: ['model_quantized', 'model_quantized_fused'] };

/** Milliseconds between the turns of libraries with threads: onnxruntime's spin for some milliseconds after a call. */
const PAUSE = 20;

/**
 * @param {object} options
 * @param {any} options.heed the imported package
 * @param {any} options.ort onnxruntime-web
 * @param {string} [options.ortFiles] where onnxruntime-web finds its module; not needed in Node
 * @param {(path: string) => Promise<Uint8Array>} options.read reads a file of the model folder
 * @param {number} options.threads
 * @param {number} options.seconds per precision and shape
 * @param {number} [options.warmup] see race()
 * @param {string[]} [options.shapes] such as '1x128'
 * @param {(line: string) => void} options.log
 * @returns {Promise<{ build: string, threads: number, rows: { dtype: string, cells: object[] }[] }>} the threads that heed runs; no rows if they are
 *   not as many as asked for
 */
export async function engineLatency({ heed, ort, ortFiles, read, threads, seconds, warmup, shapes, log }) {
  ort.env.wasm.numThreads = threads;
  ort.env.logLevel = 'error';
  if (ortFiles) ort.env.wasm.wasmPaths = ortFiles;
  const { info } = await heed.load({ threads });
  if (info.threads !== threads) return { build: info.build, threads: info.threads, rows: [] };
  const files = Object.fromEntries(
    await Promise.all(['config.json', 'model.safetensors'].map(async (name) => [name, await read(name)])),
  );
  const chosen = SHAPES.filter((shape) => !shapes || shapes.includes(shape.join('x')));
  const rows = [];
  for (const [dtype, graphs] of Object.entries(GRAPHS)) {
    const contestants = [await heedContestant({ heed, build: info.build, dtype, files, threads })];
    for (const name of graphs)
      contestants.push(await onnxContestant({ ort, name, graph: await read(`onnx/${name}.onnx`) }));
    const cells = [];
    for (const shape of chosen) {
      const [ours, ...peers] = await race(contestants, makeBatch(shape), {
        seconds,
        warmup,
        pause: threads > 1 ? PAUSE : 0,
      });
      const fastest = peers.reduce((a, b) => (median(a.ms) <= median(b.ms) ? a : b));
      const cell = { shape, ms: median(ours.ms), speedup: speedup(ours, fastest) };
      log(
        `${threads} threads, ${dtype}, ${shape.join(' x ')}: ${cell.ms.toFixed(1)} ms, ${cell.speedup.median.toFixed(2)} times as fast`,
      );
      cells.push(cell);
    }
    for (const { dispose } of contestants) await dispose();
    rows.push({ dtype, cells });
  }
  return { build: info.build, threads: info.threads, rows };
}

/** engineLatency() in a page: `files` is the path of the model folder. */
export function engineLatencyInPage({ files, ...options }) {
  const read = async (path) => {
    const response = await fetch(`${files}${path}`);
    if (!response.ok) throw new Error(`${path}: ${response.status}`);
    return new Uint8Array(await response.arrayBuffer());
  };
  return engineLatency({ ...options, read });
}
