// `npm run bench [arguments]`: builds heed, installs the libraries and engines it is compared with (bench/package.json; on Debian
// also packages of the system), and runs bench/run.mjs.
import { build } from './build.mjs';
import { isDebian, run, runMain } from './console.mjs';
import { ensureDebianPackages, ensurePackages } from './setup.mjs';

const kDebianPackages = [
  'python3-numpy', // with python3-onnx, writes the encoder in the formats of other libraries
  'python3-onnx',
  'python3-torch', // trains beside heed
  'libopenblas0-pthread', // PyTorch's matrix products, which are many times as slow with the reference BLAS that it comes with
  'firefox-esr',
  'webkit2gtk-driver',
  'xvfb', // a display for WebKitGTK
];

await runMain(async () => {
  await build();
  if (isDebian()) await ensureDebianPackages(kDebianPackages);
  await ensurePackages('bench');
  await ensurePackages('tests/browsers'); // the drivers of Firefox and WebKit
  await run([process.execPath, 'bench/run.mjs', ...process.argv.slice(2)]);
});
