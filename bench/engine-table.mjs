/** bench/ENGINES.md: a table per CPU, in which a run replaces the rows of the engines that it has measured. */

import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { SHAPES } from './harness.mjs';

const INTRODUCTION = `# heed in each engine

By \`npm run bench\`, one table per CPU; a run replaces the rows of its CPU and of the engines that it finds. The encoder has MiniLM-L6's shape (6 layers, width 384, 12 heads, feed-forward width
1536) and random weights. Shapes are texts x tokens. A cell has heed's median time, and how many times as fast as onnxruntime-web's fastest graph with as many threads heed is: the
median of ratios taken round by round, with their quartiles. heed runs in the build that it chooses by itself. WebKitGTK has no shared memory, so that both libraries run one thread there.`;

const HEAD = ['engine', 'build', 'threads', '', ...SHAPES.map((shape) => shape.join(' x ')), 'measured on'];
const line = (cells) => `| ${cells.join(' | ')} |`;

/** Names the CPU such that two models with the same brand name differ: "AMD EPYC (family 25, model 1), 2 cores, without AVX-VNNI". */
export function cpuName() {
  const [{ model }, ...others] = cpus();
  const name = `${model.trim()}`;
  const cores = `${others.length + 1} cores`;
  let info;
  try {
    info = readFileSync('/proc/cpuinfo', 'utf8');
  } catch {
    return `${name}, ${cores}`; // not Linux
  }
  const field = (key) => info.match(new RegExp(`^${key}\\s*: (.*)$`, 'm'))?.[1];
  const flags = field('flags')?.split(' ');
  if (!flags) return `${name}, ${cores}`; // not x86
  const has = flags.includes('avx_vnni') ? 'with AVX-VNNI' : 'without AVX-VNNI';
  return `${name} (family ${field('cpu family')}, model ${field('model')}), ${cores}, ${has}`;
}

/** The engine of a row: "Node 24" for Node 24.21.0, and "Firefox" for any version. */
const engineOf = (row) => row.match(/^\| (Node \d+|[A-Za-z]+)/)?.[1];
const threadsOf = (row) => Number(row.split(' | ')[2]);

/**
 * @param {string} engine with its version, such as "Node 24.21.0"
 * @param {object} measured by engineLatency(), for one number of threads
 * @param {string} date
 * @returns {string[]} lines of the table
 */
export function rowsOf(engine, { build, threads, rows }, date) {
  const cell = (found) => {
    if (!found) return '';
    const { median, low, high } = found.speedup;
    return `${found.ms.toFixed(1)} ms, ${median.toFixed(2)} (${low.toFixed(2)}–${high.toFixed(2)})`;
  };
  return rows.map(({ dtype, cells }) => {
    const byShape = SHAPES.map((shape) => cell(cells.find((c) => String(c.shape) === String(shape))));
    return line([engine, build, threads, dtype, ...byShape, date]);
  });
}

/**
 * The file with the rows of this CPU's engines replaced; those of other numbers of threads stay.
 *
 * @param {string} text the file so far, or nothing
 * @param {string} cpu
 * @param {string[]} rows from rowsOf()
 */
export function withRows(text, cpu, rows) {
  const tables = new Map();
  for (const section of text.split(/^## /m).slice(1)) {
    const [name, ...lines] = section.trim().split('\n');
    tables.set(name, lines.filter((row) => row.startsWith('| ')).slice(2)); // without the head
  }
  const key = (row) => `${engineOf(row)} ${threadsOf(row)}`;
  const replaced = new Set(rows.map(key));
  const kept = (tables.get(cpu) ?? []).filter((row) => !replaced.has(key(row)));
  tables.set(cpu, [...kept, ...rows]);
  const byName = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const order = (a, b) => byName(engineOf(a), engineOf(b)) || threadsOf(a) - threadsOf(b); // sort() keeps fp32 before q8
  const sections = [...tables]
    .sort(([a], [b]) => byName(a, b))
    .map(([name, lines]) => {
      const table = [line(HEAD), line(HEAD.map(() => '---')), ...lines.sort(order)];
      return `## ${name}\n\n${table.join('\n')}`;
    });
  return `${[INTRODUCTION, ...sections].join('\n\n')}\n`;
}
