/** CPU time of the thread that runs the benchmark, on Linux: unlike the time of day, it does not count the time in which other programs have the core. */

import { readdirSync, readFileSync } from 'node:fs';

const read = (path) => {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return ''; // the process has ended
  }
};

/** Milliseconds that the main thread of a process has run; NaN where the kernel does not say. */
export const cpuTime = (pid = process.pid) =>
  Number(read(`/proc/${pid}/task/${pid}/schedstat`).split(' ')[0] || 'NaN') / 1e6;

/** Milliseconds that all threads of a process have run, also those that have ended, in steps of 10 ms. */
export function processTime(pid) {
  const fields = read(`/proc/${pid}/stat`)
    .replace(/^.*\) /s, '')
    .split(' ');
  return 10 * (Number(fields[11]) + Number(fields[12])); // utime and stime, in hundredths of a second
}

/** Milliseconds of processor time of all threads of this process so far. */
export function ownTime() {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Names under which browsers run the code of pages. */
const CONTENT = /WebKitWebProces|Isolated Web Co|Web Content|--type=renderer/;

/** The process that runs a page: among those that this process has started, directly or not, the one that has run longest. */
export function contentProcess() {
  const parents = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const parent = read(`/proc/${name}/stat`)
      .replace(/^.*\) \S /s, '')
      .split(' ')[0];
    parents.set(Number(name), Number(parent));
  }
  const isOurs = (pid) => pid === process.pid || (parents.has(pid) && isOurs(parents.get(pid)));
  const pids = [...parents.keys()].filter(
    (pid) =>
      pid !== process.pid && isOurs(pid) && CONTENT.test(read(`/proc/${pid}/comm`) + read(`/proc/${pid}/cmdline`)),
  );
  return pids.reduce((most, pid) => (cpuTime(pid) > cpuTime(most) ? pid : most), pids[0]);
}
