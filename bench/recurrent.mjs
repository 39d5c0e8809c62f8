/**
 * Measures inference with recurrent layers: WebAssembly memory as a multiple of the output's size, and processor time. Prints one line per layer.
 *
 *     node bench/recurrent.mjs [DIST]
 */
import { fileURLToPath, pathToFileURL } from 'node:url';
import { ownTime } from './cpu-time.mjs';

const dist = process.argv[2] ?? fileURLToPath(new URL('../dist', import.meta.url));
const { load, Tensor } = await import(pathToFileURL(`${dist}/index.js`).href);
/** Layer, sequences, positions, width of x and of a state, and options. */
const CASES = [
  ['LSTM', 16, 8000, 64, {}],
  ['GRU', 16, 8000, 64, {}],
  ['LSTM', 64, 500, 256, {}],
  ['LSTM', 16, 4000, 64, { bidirectional: true, numLayers: 2 }],
];
for (const [name, count, length, width, options] of CASES) {
  const heed = await load();
  const layer = new heed[name]({ inputSize: width, hiddenSize: width, ...options });
  const values = Float32Array.from({ length: count * length * width }, (_, i) => Math.sin(i * i));
  const start = ownTime();
  const { output } = layer.forward(new Tensor(values, [count, length, width]));
  const { data } = output;
  const seconds = (ownTime() - start) / 1000;
  const times = (heed.info.memoryBytes / data.byteLength).toFixed(1);
  console.log(
    `${name} ${count} x ${length} x ${width} ${JSON.stringify(options)}: output ${(data.byteLength / 1e6).toFixed(0)} MB, memory ${times} times that, ${seconds.toFixed(2)} CPU s`,
  );
  layer.dispose();
  heed.dispose();
}
