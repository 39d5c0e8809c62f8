#!/usr/bin/env node
// The quality of the bundled model in fewer bytes: prints the curve of web/model/README.md. Quantizes the model three times, in 2, 3 and
// 4 bits. Because error feedback uses the inputs of the published model, each matrix is the same whatever the types of the others, so
// that any mixture takes its tensors from these three files. The loss of a matrix is what it costs the mean cosine when it alone has
// 2 bits (or saves when it alone has 4 bits) and all others have 3.
//
//   node tools/model/curve.mjs [--sts stsb-en-test.csv] [--cranfield cranfield-trec-dataset] [--points 'NAME;...'] [--rows 19700] [--synsets 400]
//
// The files remain in build/model/curve. bundle.mjs with --bits FILE (and the same --rows and --synsets) makes the folder of a point; see benchmarks.mjs for the two test sets.

import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseArgs } from 'node:util';
import { load } from 'heed';
import { evaluateEmbeddingSimilarity, evaluateInformationRetrieval } from 'heed/evaluation';
import { ensureCheckpoint } from '../checkpoints.mjs';
import { root, runMain, say, timed } from '../console.mjs';
import { readCranfield } from './cranfield.mjs';
import { describe, embed, readSts, sampleOf, similarity } from './measures.mjs';
import { calibrationTexts, prunedFolder } from './recipe.mjs';

const { values: options } = parseArgs({
  options: {
    sts: { type: 'string' },
    cranfield: { type: 'string' },
    points: { type: 'string' },
    rows: { type: 'string', default: '19700' },
    synsets: { type: 'string', default: '400' },
  },
});
const folder = join(root, 'build/model/curve', `${options.rows}-${options.synsets}`);
const TABLE = 'embeddings.word_embeddings.weight';
const BITS = [2, 3, 4];

/** A file's tensors by the name of the weight that they belong to. */
function weightsOf(file) {
  const length = Number(file.readBigUInt64LE(0));
  const { __metadata__, ...header } = JSON.parse(file.subarray(8, 8 + length).toString());
  const weights = new Map();
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    const weight = name.replace(/_(scale|column_scale|outliers)$/, '');
    const data = file.subarray(8 + length + data_offsets[0], 8 + length + data_offsets[1]);
    weights.set(weight, [...(weights.get(weight) ?? []), { name, dtype, shape, data }]);
  }
  return weights;
}

function fileOf(tensors) {
  let end = 0;
  const header = { __metadata__: { format: 'pt' } };
  for (const { name, dtype, shape, data } of tensors) {
    header[name] = { dtype, shape, data_offsets: [end, end + data.length] };
    end += data.length;
  }
  const json = JSON.stringify(header);
  const start = Buffer.from(json.padEnd(Math.ceil(json.length / 8) * 8));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(start.length));
  return Buffer.concat([length, start, ...tensors.map(({ data }) => data)]);
}

/** The folder's files with all weights in so many bits. */
async function quantized(heed, bits) {
  const target = join(folder, `int${bits}`);
  const names = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json', 'modules.json'];
  names.push('sentence_bert_config.json', '1_Pooling/config.json');
  if (!existsSync(join(target, names.at(-1)))) {
    const { files: pruned } = await prunedFolder(
      heed,
      await ensureCheckpoint('all-MiniLM-L6-v2'),
      Number(options.rows),
    );
    const type = `int${bits}`;
    const { files } = await heed.quantize(pruned, {
      tables: type,
      matrices: type,
      texts: await calibrationTexts(Number(options.synsets)),
    });
    for (const name of names) {
      mkdirSync(dirname(join(target, name)), { recursive: true });
      writeFileSync(join(target, name), files[name]);
    }
  }
  return Object.fromEntries(names.map((name) => [name, readFileSync(join(target, name))]));
}

/** Each weight's bits such that the losses add up to the least at about `bytes` bytes: one more bit at a time, where it saves most per byte. */
function bitsFor(bytes, losses, sizeOf) {
  const bits = new Map([...losses.keys()].map((name) => [name, 2]));
  let total = sizeOf(bits);
  for (;;) {
    const steps = [...bits].flatMap(([name, own]) => {
      if (own === 4) return [];
      const more = sizeOf(new Map(bits).set(name, own + 1)) - total;
      return total + more > bytes
        ? []
        : [{ name, more, rate: (losses.get(name)[own] - losses.get(name)[own + 1]) / more }];
    });
    const best = steps.sort((a, b) => b.rate - a.rate)[0];
    if (!best || best.rate <= 0) return bits;
    bits.set(best.name, bits.get(best.name) + 1);
    total += best.more;
  }
}

await runMain(async () => {
  const heed = await load();
  const published = await heed.fromPretrained(await ensureCheckpoint('all-MiniLM-L6-v2'), { dtype: 'fp32' });
  const all = {};
  for (const bits of BITS) all[bits] = await quantized(heed, bits);
  const weights = Object.fromEntries(BITS.map((bits) => [bits, weightsOf(all[bits]['model.safetensors'])]));
  const mixed = [...weights[3].keys()].filter((name) => weights[3].get(name).some(({ dtype }) => dtype === 'U8'));
  const tensorsOf = (bits) => [...weights[3].keys()].flatMap((name) => weights[bits.get(name) ?? 3].get(name));
  const sizeOf = (bits) => tensorsOf(bits).reduce((sum, { data }) => sum + data.length, 0);
  /** config.json says the bits of the table; those of matrices follow from their shapes. */
  const filesOf = (bits) => {
    const config = all[bits.get(TABLE) ?? 3]['config.json'];
    return { ...all[3], 'config.json': config, 'model.safetensors': fileOf(tensorsOf(bits)) };
  };
  const modelOf = (bits) => heed.fromPretrained(filesOf(bits), { dtype: 'q8' });

  const texts = await sampleOf(400);
  const exact = await embed(published, texts);
  const some = texts.filter((_, i) => i % 4 === 0);
  const exactOfSome = exact.filter((_, i) => i % 4 === 0);
  const lossOf = async (bits) => {
    const model = await modelOf(bits);
    const { mean } = similarity(await embed(model, some), exactOfSome);
    model.dispose();
    return 1 - mean;
  };
  const lossFile = join(folder, 'losses.json');
  if (!existsSync(lossFile)) {
    const base = await lossOf(new Map());
    const losses = {};
    for (const name of mixed) {
      const [two, four] = [await lossOf(new Map([[name, 2]])), await lossOf(new Map([[name, 4]]))];
      losses[name] = { 2: two - base, 3: 0, 4: four - base };
      say(`${name}: ${(1e4 * losses[name][2]).toFixed(1)} and ${(1e4 * losses[name][4]).toFixed(1)} of 10,000`);
    }
    writeFileSync(lossFile, JSON.stringify({ base, losses }, null, 1));
  }
  const { losses: known } = JSON.parse(readFileSync(lossFile, 'utf8'));
  const losses = new Map(Object.entries(known));
  const MB = 1e6;
  const points = {
    'all in 4 bits': new Map(mixed.map((name) => [name, 4])),
    'all in 3 bits': new Map(),
    'table in 2 bits, matrices in 3': new Map([[TABLE, 2]]),
    'chosen, 7.2 MB': bitsFor(7.19 * MB, losses, sizeOf),
    'chosen, 6.6 MB': bitsFor(6.6 * MB, losses, sizeOf),
    'chosen, 6.0 MB': bitsFor(6.0 * MB, losses, sizeOf),
    'chosen, 5.6 MB': bitsFor(5.6 * MB, losses, sizeOf),
    'table in 3 bits, matrices in 2': new Map(mixed.filter((name) => name !== TABLE).map((name) => [name, 2])),
    'all in 2 bits': new Map(mixed.map((name) => [name, 2])),
  };
  const index = await heed.TextIndex.load(join(root, 'web/model/dictionary'));
  for (const [name, bits] of Object.entries(points)) {
    if (options.points && !options.points.split(';').some((point) => name.includes(point))) continue;
    const files = filesOf(bits);
    const { seconds, result: value } = await timed(async () => {
      const model = await heed.fromPretrained(files, { dtype: 'q8' });
      const { mean, neighbours } = similarity(await embed(model, texts), exact);
      const cells = [mean.toFixed(4), `${(100 * neighbours).toFixed(0)} %`];
      for (const list of ['descriptions.json', 'everyday.json']) {
        const [first, ten] = (await describe(list, model, index)).counts['words other than those of the description'];
        cells.push(`${first}, ${ten}`);
      }
      if (options.sts) cells.push((await evaluateEmbeddingSimilarity(model, readSts(options.sts))).spearman.toFixed(4));
      if (options.cranfield)
        cells.push((await evaluateInformationRetrieval(model, readCranfield(options.cranfield))).ndcg[10].toFixed(4));
      model.dispose();
      return cells;
    });
    const counts = BITS.map((n) => mixed.filter((each) => each !== TABLE && (bits.get(each) ?? 3) === n).length);
    say(`${name}: table ${bits.get(TABLE) ?? 3}, matrices ${counts.join(' / ')} (${Math.round(seconds)} s)`);
    console.log(`| ${name} | ${files['model.safetensors'].length.toLocaleString('en')} | ${value.join(' | ')} |`);
    writeFileSync(
      join(folder, `${name.replaceAll(/[ ,]+/g, '-')}.json`),
      JSON.stringify(Object.fromEntries(mixed.map((each) => [each, bits.get(each) ?? 3])), null, 1),
    );
  }
});
