/** `heed doctor`: reports which build runs and why, or checks a model's folder for missing or damaged files. */
import * as os from 'node:os';
import type { Command } from 'commander';
import { load } from '../../index.js';
import { checkFolder, type FolderReport } from '../check-folder.js';
import { addExamples, addJson } from '../options.js';
import { paint, print, printJson, printTable } from '../terminal.js';

export function addDoctor(program: Command): void {
  const command = program
    .command('doctor [folder]')
    .description("report which build runs, and why; or what is missing in a model's folder or in a cache");
  addJson(command, 'one line of JSON');
  addExamples(command, 'heed doctor', 'heed doctor ./model', 'heed doctor ~/.cache/huggingface/hub').action(
    (folder: string | undefined, options: { json?: boolean }) =>
      folder === undefined ? describeMachine(options) : examineFolder(folder, options),
  );
}

async function describeMachine({ json }: { json?: boolean }): Promise<void> {
  using heed = await load({ threads: 'auto' });
  const { version, build, reason, threads, threadsReason } = heed.info;
  const { node, v8 } = process.versions;
  const platform = `${os.platform()} ${os.arch()}`;
  const cores = os.availableParallelism();
  if (json)
    return printJson({
      ...{ heed: version, node, v8, platform, cores, memory: os.totalmem() },
      ...{ build, buildReason: reason, threads, threadsReason },
    });
  printTable([
    ['heed', `${version}, build ${build}: ${reason}`],
    ['engine', `Node ${node}, V8 ${v8}, ${platform}`],
    ['processor', `${cores} cores, ${(os.totalmem() / 2 ** 30).toFixed(1)} GiB of memory`],
    ['threads', `1 by default; auto: ${threads} (${threadsReason})`],
  ]);
  if (build === 'simd128')
    print(
      'The build relaxed-simd is faster. It needs Node 22 or newer; in Node 20, run: node --experimental-wasm-relaxed-simd "$(command -v heed)" ...',
    );
}

async function examineFolder(folder: string, { json }: { json?: boolean }): Promise<void> {
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
