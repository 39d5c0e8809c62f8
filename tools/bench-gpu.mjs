// `npm run bench:gpu`: builds the page that times heed on a GPU, as a static folder, and serves it. `npm run bench:gpu build`: stops there.
import * as fs from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from './build.mjs';
import { root, run, runMain, say, withProgress } from './console.mjs';

const kScripts = [
  'gpu-page.mjs',
  'gpu.mjs',
  'harness.mjs',
  'random-encoder.mjs',
  'encoder-graph.mjs',
  'safetensors.mjs',
  'contestants/heed.mjs',
  'contestants/onnxruntime.mjs',
];
const kOnnxruntime = ['ort.webgpu.bundle.min.mjs', 'ort-wasm-simd-threaded.asyncify.wasm'];

/** Fetches onnxruntime-web, of which the page needs two files; its package has 700 MB of others around it in bench/. */
async function fetchOnnxruntime(folder) {
  if (kOnnxruntime.every((name) => fs.existsSync(join(folder, name)))) return;
  const { devDependencies } = JSON.parse(fs.readFileSync(join(root, 'bench/package.json'), 'utf8'));
  const name = `onnxruntime-web@${devDependencies['onnxruntime-web']}`;
  fs.mkdirSync(folder, { recursive: true });
  await withProgress(`fetching ${name}`, run(['npm', 'pack', name], { quiet: true, cwd: folder }));
  const archive = fs.readdirSync(folder).find((file) => file.endsWith('.tgz'));
  const paths = kOnnxruntime.map((file) => `package/dist/${file}`);
  await run(['tar', 'xzf', archive, '--strip-components=2', ...paths], { quiet: true, cwd: folder });
  fs.rmSync(join(folder, archive));
}

/** Writes the page and all that it loads into the folder; of onnxruntime-web nothing, if it is left out. */
export async function makeGpuPage(folder, { onnxruntime = true } = {}) {
  const copy = (from, to) => {
    const target = join(folder, to);
    fs.mkdirSync(dirname(target), { recursive: true });
    fs.copyFileSync(join(root, from), target);
  };
  fs.rmSync(join(folder, 'heed'), { recursive: true, force: true }); // whose chunks have other names after each build
  copy('bench/gpu.html', 'index.html');
  for (const name of kScripts) copy(`bench/${name}`, name);
  for (const name of fs.readdirSync(join(root, 'dist')))
    if (/\.(js|wasm)$/.test(name) && !name.includes('train-')) copy(`dist/${name}`, `heed/${name}`);
  if (onnxruntime) await fetchOnnxruntime(join(folder, 'onnxruntime'));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runMain(async () => {
    await build();
    const folder = join(root, 'build/bench/gpu');
    await makeGpuPage(folder);
    say('built build/bench/gpu, which any static host can serve under any path');
    if (process.argv[2] === 'build') return;
    const { preview } = await import('vite');
    const server = await preview({ configFile: false, root, build: { outDir: folder } });
    server.printUrls();
    say('open this page in a browser on the machine with the GPU; press Ctrl-C to stop');
  });
}
