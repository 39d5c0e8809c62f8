/**
 * Texts per second over real sentences of mixed lengths: heed's `embed`, in this thread and in one worker per core, and transformers.js's pipeline with its default number of threads.
 * Every round embeds the same slice of the corpus with each contestant, in an order that rotates. transformers.js pads all texts of a call to the longest, so that it is measured with
 * calls of 8 and of 64 texts, and the faster one counts.
 */

import { agreement, median, speedup } from './harness.mjs';

const OPTIONS = { pooling: 'mean', normalize: true };
const FILES = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json'];

/** heed in this thread and in workers. */
async function heeds(place) {
  const files = Object.fromEntries(await Promise.all(FILES.map(async (name) => [name, await place.read(name)])));
  const runtime = await place.heed.load();
  const list = [];
  for (const [name, options] of [
    ['heed q8', { dtype: 'q8' }],
    ['heed q8', { dtype: 'q8', workers: 'auto' }],
    ['heed fp32', {}],
    ['heed fp32', { workers: 'auto' }],
  ]) {
    const model = await runtime.fromPretrained(files, options);
    list.push({
      name: `${name}, ${model.workers.count || 'no'} workers`,
      run: async (texts) => (await model.embed(texts, OPTIONS)).data,
      dispose: () => model.dispose(),
    });
  }
  return { list, dispose: () => runtime.dispose() };
}

async function transformers(place) {
  const { pipeline, env } = place.transformers;
  env.allowRemoteModels = false;
  env.allowLocalModels = true;
  env.localModelPath = place.modelsRoot;
  const device = place.transformersDevice;
  const extract = await pipeline('feature-extraction', 'minilm', { dtype: 'q8', ...(device ? { device } : {}) });
  const inCallsOf = (size) => async (texts) => {
    const vectors = [];
    for (let i = 0; i < texts.length; i += size) vectors.push((await extract(texts.slice(i, i + size), OPTIONS)).data);
    const all = new Float32Array(vectors.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const each of vectors) {
      all.set(each, at);
      at += each.length;
    }
    return all;
  };
  return [8, 64].map((size) => ({
    name: `transformers.js q8, calls of ${size}`,
    run: inCallsOf(size),
    dispose: () => size === 64 && extract.dispose(),
  }));
}

/**
 * @param {import('./suite.mjs').Place} place
 * @param {string[]} texts
 * @param {{ seconds?: number, slice?: number }} [options] `slice`: texts per round
 */
export async function corpus(place, texts, { seconds = 10, slice = 256 } = {}) {
  if (!place.transformers) return null;
  const { list, dispose } = await heeds(place);
  const peers = await transformers(place);
  const contestants = [...list, ...peers];
  const slices = [];
  for (let i = 0; i + slice <= texts.length; i += slice) slices.push(texts.slice(i, i + slice));
  const reference = await list[2].run(slices[0]);
  const cosines = [];
  for (const c of contestants) cosines.push(agreement(reference, await c.run(slices[0])).cosine);
  const least = Math.min(...cosines);
  if (!(least > 0.98)) throw new Error(`bench: the vectors differ: cosines ${cosines.join(', ')}`);
  const timings = contestants.map(({ name }) => ({ name, ms: [] }));
  const start = performance.now();
  for (let round = 0; round < slices.length || performance.now() - start < seconds * 1000; round++) {
    const batch = slices[round % slices.length];
    for (let k = 0; k < contestants.length; k++) {
      const at = (k + round) % contestants.length;
      const before = performance.now();
      await contestants[at].run(batch);
      timings[at].ms.push((performance.now() - before) / batch.length);
    }
  }
  for (const c of contestants) await c.dispose();
  dispose();
  const others = timings.slice(list.length);
  const peer = others.reduce((a, b) => (median(a.ms) <= median(b.ms) ? a : b));
  const rows = timings.map((t, k) => ({
    name: t.name,
    textsPerSecond: 1000 / median(t.ms),
    ratio: speedup(t, peer),
    cosine: cosines[k],
  }));
  for (const { name, textsPerSecond, ratio } of rows)
    place.log(
      `${name}: ${textsPerSecond.toFixed(0)} texts/s, ${ratio.median.toFixed(2)} (${ratio.low.toFixed(2)} to ${ratio.high.toFixed(2)}) times ${peer.name}`,
    );
  return { texts: slices.length * slice, slice, rounds: timings[0].ms.length, peer: peer.name, rows };
}
