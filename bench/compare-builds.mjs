/** The comparison of compare.mjs, in Node or in a page. */

import { heedContestant } from './contestants/heed.mjs';
import { agreement, makeBatch, median, race, speedup } from './harness.mjs';
import { encoderFiles } from './random-encoder.mjs';

/**
 * Times A and B, both encoders of the same random weights, for each build, dtype and shape.
 *
 * @param {object} options
 * @param {any[]} options.heeds the two imported packages
 * @param {string[]} options.builds
 * @param {string[]} options.dtypes
 * @param {number[][]} options.shapes [texts, tokens]
 * @param {(number | undefined)[]} options.threads of A and of B
 * @param {number} options.seconds per build, dtype and shape
 * @param {number} [options.warmup] see race()
 * @param {number} [options.pause] see race()
 * @param {() => number} [options.clock] the clock in Node, if it is not the time of day; see race()
 * @param {string} [options.clockPath] the same in a page: where it is fetched
 * @param {(line: string) => void} options.log
 */
export async function compareBuilds({
  heeds,
  builds,
  dtypes,
  shapes,
  threads,
  seconds,
  warmup,
  pause,
  clock,
  clockPath,
  log,
}) {
  const { files, vocab } = encoderFiles();
  const fetched = clockPath && (async () => Number(await (await fetch(clockPath)).text()));
  const timing = { seconds, warmup, pause, ...((clock || fetched) && { clock: clock ?? fetched, tick: 0.5 }) };
  for (const build of builds) {
    for (const dtype of dtypes) {
      const contestants = [];
      for (const [i, heed] of heeds.entries())
        contestants.push(await heedContestant({ heed, build, dtype, files, threads: threads[i] }));
      for (const shape of shapes) {
        const batch = makeBatch(shape, vocab);
        const [a, b] = [await contestants[0].run(batch), await contestants[1].run(batch)];
        const identical = a.every((x, i) => Object.is(x, b[i]));
        const same = identical ? 'identical' : `cosine ${agreement(a, b).cosine.toFixed(7)}`;
        const timings = await race(contestants, batch, timing);
        const ratio = speedup(timings[1], timings[0]);
        log(
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
}
