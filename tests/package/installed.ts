// Packs the package and installs it with --ignore-scripts in an empty folder, as users do.
import { execFile } from 'node:child_process';
import * as fs from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { inject } from 'vitest';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const apps = join(root, 'tests/package/apps');

const exec = promisify(execFile);

/** Runs a program and returns its standard output. If it fails, the error contains its output. */
export async function run(program: string, args: string[], options: { cwd: string; env?: Record<string, string> }) {
  try {
    const env = { ...process.env, ...options.env };
    // With these variables, which Vitest sets, bundlers would build for tests.
    delete env.NODE_ENV;
    delete env.VITEST;
    const { stdout } = await exec(program, args, { ...options, env: { ...env, ...options.env }, maxBuffer: 1 << 26 });
    return stdout;
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as { stdout?: string; stderr?: string; message: string };
    throw new Error(`${message}\n${stdout}\n${stderr}`);
  }
}

export const runNode = (args: string[], options: { cwd: string; env?: Record<string, string> }) =>
  run(process.execPath, args, options);

export interface Packed {
  /** Bytes of the tarball. */
  size: number;
  files: { path: string; size: number }[];
  /** A new folder outside the repository, so that bundlers do not find the repository's configuration. */
  place: string;
  /** The node_modules folder after installing the tarball. */
  installed: string;
}

/** Runs `npm pack`, then `npm install --ignore-scripts` in an empty folder. */
export async function pack(): Promise<Packed> {
  const place = fs.mkdtempSync(join(tmpdir(), 'heed-package-'));
  const printed = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', place], { cwd: root });
  const [report] = Object.values(JSON.parse(printed)) as [{ filename: string; size: number; files: Packed['files'] }];
  const folder = join(place, 'installed');
  fs.mkdirSync(folder);
  fs.writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'app', private: true }));
  const flags = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-save', '--offline'];
  await run('npm', ['install', ...flags, join(place, report.filename)], { cwd: folder });
  return { size: report.size, files: report.files, place, installed: join(folder, 'node_modules') };
}

/** What smoke.js returns. */
export interface Smoke {
  build: string;
  output: number[][];
  vectors: number[][];
  workerVectors?: number[][];
  error: string;
}

/** The result of smoke.js in Node, with which all other environments must agree. */
export async function resultInNode({ place, installed }: Packed): Promise<Smoke> {
  const folder = install('expected', 'plain', place, installed);
  const script = `import * as heed from 'heed'; import { smoke } from './smoke.js'; console.log(JSON.stringify(await smoke(heed, { worker: false })));`;
  return JSON.parse(await runNode(['--input-type=module', '--no-warnings', '-e', script], { cwd: folder }));
}

/**
 * Creates the folder `parent`/`name` with the installed package and, if given, a copy of `app` (a folder in
 * tests/package/apps) with the shared smoke.js. Test files run at the same time, so each needs names of its own.
 */
export function install(
  name: string,
  app?: string,
  parent = inject('packed').place,
  installed = inject('packed').installed,
): string {
  const folder = join(parent, name);
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  fs.writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: `app-${name}`, private: true }));
  if (app) {
    fs.cpSync(join(apps, app), folder, { recursive: true });
    fs.copyFileSync(join(apps, 'smoke.js'), join(folder, 'smoke.js'));
  }
  fs.cpSync(installed, join(folder, 'node_modules'), { recursive: true, verbatimSymlinks: true });
  return folder;
}

declare module 'vitest' {
  interface ProvidedContext {
    packed: Packed;
    expected: Smoke;
  }
}

/**
 * Copies heed's files for bundlers that do not process `new URL('./file', import.meta.url)` (esbuild, Rollup), like
 * `cp -r node_modules/heed/dist/{*.wasm,*.js,model} out/`, but without overwriting the bundler's output.
 */
export function copyRuntime(folder: string, out: string) {
  fs.cpSync(join(folder, 'node_modules/heed/dist'), out, { recursive: true, force: false });
}
