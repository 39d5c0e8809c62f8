/**
 * `heed doctor`: reports which build runs, why and how fast; or checks a model's folder for missing or damaged files.
 */

import type { Command } from 'commander';
import { minOf } from '../../base/lists.js';
import { checkFolder, type FolderReport } from '../doctor/folder.js';
import { describeMachine, int8Note, type Machine } from '../doctor/machine.js';
import { FAR_BELOW, type Measured, measureSpeed } from '../doctor/speed.js';
import { addExamples, addJson } from '../options.js';
import { paint, print, printJson, printTable } from '../terminal.js';

interface Options {
  json?: boolean;
}

export function addDoctor(program: Command): void {
  const command = program
    .command('doctor [folder]')
    .description("report which build runs, why, and how fast; or what is missing in a model's folder or in a cache");
  addJson(command, 'one line of JSON');
  addExamples(command, 'heed doctor', 'heed doctor ./model', 'heed doctor ~/.cache/huggingface/hub').action(
    (folder: string | undefined, options: Options) =>
      folder === undefined ? examineMachine(options) : examineFolder(folder, options),
  );
}

async function examineMachine({ json }: Options): Promise<void> {
  const machine = await describeMachine();
  const measured = await measureSpeed();
  const advice = adviceFor(machine, measured);
  if (json) return printJson({ ...machine, ...measured, advice });
  const gigabytes = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
  const giga = (rate: number) => (rate / 1e9).toFixed(1);
  printTable([
    ['heed', `${machine.heed}, build ${machine.build}: ${machine.buildReason}`],
    ['engine', `Node ${machine.node}, V8 ${machine.v8}, ${machine.platform}`],
    ['processor', `${machine.cpu}, ${machine.cores} cores`],
    ['instructions', machine.instructions?.join(' ') ?? 'unknown on this system'],
    ['memory', `${gigabytes(machine.memory)}, ${gigabytes(machine.freeMemory)} free`],
    ['threads', `1 by default; auto: ${machine.threads} (${machine.threadsReason})`],
    ['model', `loaded in ${measured.loadMs.toFixed(0)} ms`],
    ['peak', `${giga(measured.peak.fp32)} GFLOP/s in fp32, ${giga(measured.peak.int8)} GOP/s in int8, one thread`],
  ]);
  print('');
  print('Speed of the model in the package, on one thread:');
  printTable([
    ['texts x tokens', 'dtype', 'tokens/s', 'expected'],
    ...measured.speeds.map(({ dtype, texts, tokensPerText, tokensPerSecond, expected }) => [
      `${texts} x ${tokensPerText}`,
      dtype,
      Math.round(tokensPerSecond).toLocaleString('en'),
      `${Math.round(expected).toLocaleString('en')} (${Math.round((100 * tokensPerSecond) / expected)} % of it)`,
    ]),
  ]);
  print('');
  for (const line of advice) print(line);
}

/** Share of CPU time below which other programs are considered to occupy the CPU. */
const BUSY = 0.8;

/** Even slow laptops exceed this number of fp32 operations per second. */
const LOW_PEAK = 10e9;

/** Warnings about the measured speed, and advice. */
function adviceFor(machine: Machine, { peak, speeds }: Measured): string[] {
  const advice: string[] = [];
  const slow = speeds.filter(({ tokensPerSecond, expected }) => tokensPerSecond < FAR_BELOW * expected);
  if (slow.length > 0) {
    const names = slow.map(({ dtype, texts, tokensPerText }) => `${dtype} at ${texts} x ${tokensPerText}`).join(', ');
    const share = minOf(slow.map(({ cpuShare }) => cpuShare));
    advice.push(
      share < BUSY
        ? `Far slower than expected: ${names}. Other programs are using the processor: heed ran for ${Math.round(100 * share)} % of the time. End them, and run this again.`
        : `Far slower than expected: ${names}. Please report it with the output of heed doctor --json.`,
    );
  } else advice.push('The model runs as fast as expected.');
  if (peak.fp32 < LOW_PEAK)
    advice.push(
      'The processor is slow in this engine: less than 10 GFLOP/s. Check that Node is a build for this processor (not emulated), is not run with a debugger, and that the machine is not in a power-saving mode.',
    );
  if (machine.build === 'simd128')
    advice.push(
      'The build relaxed-simd is faster. It needs Node 22 or newer; in Node 20, run: node --experimental-wasm-relaxed-simd "$(command -v heed)" ...',
    );
  const note = int8Note(machine);
  if (note) advice.push(note);
  return advice;
}

async function examineFolder(folder: string, { json }: Options): Promise<void> {
  const reports = await checkFolder(folder);
  if (reports.some(({ ok }) => !ok)) process.exitCode = 1;
  if (json) return printJson(reports);
  for (const report of reports) printReport(report, report.folder !== folder);
}

function printReport({ folder, findings, ok }: FolderReport, isInside: boolean): void {
  if (isInside) print(folder);
  printTable(findings.map((finding) => [finding.name, finding.ok ? 'ok' : 'not ok', finding.message]));
  print(ok ? paint('green', 'The folder can be used.') : paint('red', 'The folder cannot be used.'));
}
