/**
 * Compares two builds of heed: `node bench/compare.mjs DIST_A DIST_B [--seconds 4] [--build relaxed-simd] [--dtype q8] [--threads 2]`.
 *
 * Loads both dist/ folders in this process and runs an encoder of MiniLM's shape (random weights) at the shapes of harness.mjs, A B A B. For each build,
 * dtype and shape it prints A's median time and how many times as fast B is: the median of the ratios taken round by round, with their quartiles, and
 * whether the outputs are bit-identical. --shape 1x128 limits the shapes. --threads gives the number of threads of B, and --base-threads that of A. The Node that runs this file is the one that is measured; Node 20 needs
 * --experimental-wasm-relaxed-simd.
 */

import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { heedContestant } from './contestants/heed.mjs';
import { agreement, makeBatch, median, race, SHAPES, speedup } from './harness.mjs';
import { writeSafetensors } from './safetensors.mjs';

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    seconds: { type: 'string', default: '4' },
    build: { type: 'string', multiple: true, default: ['relaxed-simd', 'simd128'] },
    shape: { type: 'string', multiple: true, default: SHAPES.map((shape) => shape.join('x')) },
    dtype: { type: 'string', multiple: true, default: ['fp32', 'q8'] },
    threads: { type: 'string' },
    'base-threads': { type: 'string' },
  },
});
if (positionals.length !== 2) {
  console.error(
    'usage: node bench/compare.mjs DIST_A DIST_B [--seconds s] [--build name] [--dtype name] [--threads n]',
  );
  process.exit(2);
}

/** config.json and model.safetensors of the encoder that models.py describes, with a smaller vocabulary. */
function encoderFiles() {
  const [layers, width, inner, vocab, positions] = [6, 384, 1536, 3000, 512];
  let state = 12345;
  const next = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  };
  const tensors = {};
  // Sums of four uniform draws are nearly normal; their deviation is that of models.py.
  const tensor = (name, shape, mean = 0) => {
    const data = new Float32Array(shape.reduce((a, b) => a * b));
    for (let i = 0; i < data.length; i++) data[i] = mean + 0.06 * Math.sqrt(3) * (next() + next() + next() + next());
    tensors[name] = { shape, data };
  };
  const norm = (name) => {
    tensor(`${name}.weight`, [width], 1);
    tensor(`${name}.bias`, [width]);
  };
  tensor('embeddings.word_embeddings.weight', [vocab, width]);
  tensor('embeddings.position_embeddings.weight', [positions, width]);
  tensor('embeddings.token_type_embeddings.weight', [2, width]);
  norm('embeddings.LayerNorm');
  for (let i = 0; i < layers; i++) {
    const layer = `encoder.layer.${i}`;
    for (const [name, out, inputs] of [
      ['attention.self.query', width, width],
      ['attention.self.key', width, width],
      ['attention.self.value', width, width],
      ['attention.output.dense', width, width],
      ['intermediate.dense', inner, width],
      ['output.dense', width, inner],
    ]) {
      tensor(`${layer}.${name}.weight`, [out, inputs]);
      tensor(`${layer}.${name}.bias`, [out]);
    }
    norm(`${layer}.attention.output.LayerNorm`);
    norm(`${layer}.output.LayerNorm`);
  }
  const config = {
    architectures: ['BertModel'],
    model_type: 'bert',
    hidden_act: 'gelu',
    hidden_size: width,
    intermediate_size: inner,
    layer_norm_eps: 1e-12,
    max_position_embeddings: positions,
    num_attention_heads: 12,
    num_hidden_layers: layers,
    pad_token_id: 0,
    type_vocab_size: 2,
    vocab_size: vocab,
  };
  return {
    vocab,
    files: {
      'config.json': new TextEncoder().encode(JSON.stringify(config)),
      'model.safetensors': writeSafetensors(tensors),
    },
  };
}

const heeds = await Promise.all(positionals.map((folder) => import(pathToFileURL(resolve(folder, 'index.js')).href)));
const { files, vocab } = encoderFiles();
console.log(
  `Node ${process.versions.node}; A = ${positionals[0]}, B = ${positionals[1]}${options.threads ? `, ${options.threads} threads` : ''}`,
);
for (const build of options.build) {
  for (const dtype of options.dtype) {
    const threads = [options['base-threads'], options.threads].map((count) => count && Number(count));
    const contestants = await Promise.all(
      heeds.map((heed, i) => heedContestant({ heed, build, dtype, files, threads: threads[i] })),
    );
    for (const shape of options.shape.map((text) => text.split('x').map(Number))) {
      const batch = makeBatch(shape, vocab);
      const [a, b] = await Promise.all(contestants.map(({ run }) => run(batch)));
      const identical = a.every((x, i) => Object.is(x, b[i]));
      const same = identical ? 'identical' : `cosine ${agreement(a, b).cosine.toFixed(7)}`;
      const timings = await race(contestants, batch, { seconds: Number(options.seconds) });
      const ratio = speedup(timings[1], timings[0]);
      console.log(
        [
          build.padEnd(12),
          dtype.padEnd(4),
          shape.join(' x ').padStart(7),
          `${median(timings[0].ms).toFixed(2).padStart(8)} ms`,
          `B is ${ratio.median.toFixed(3)} times as fast (${ratio.low.toFixed(3)} to ${ratio.high.toFixed(3)}, ${timings[0].ms.length} rounds)`,
          same,
        ].join('  '),
      );
    }
    for (const { dispose } of contestants) await dispose();
  }
}
