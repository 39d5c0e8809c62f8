// Shared by all tools: printing messages, failing, and running programs.
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { fileURLToPath } from 'node:url';

/** The repository's root folder. */
export const root = fileURLToPath(new URL('..', import.meta.url));

/** Whether this is Debian itself: its derivatives have other package names and mirrors. */
export function isDebian() {
  const release = '/etc/os-release';
  return fs.existsSync(release) && /^ID="?debian"?$/m.test(fs.readFileSync(release, 'utf8'));
}

/** An error that is reported by its message alone, without a stack trace. */
export class PlainError extends Error {}

export const say = (message) => process.stdout.write(`heed: ${message}\n`);

/** Runs `main`; errors are printed and set exit status 1. */
export async function runMain(main) {
  try {
    await main();
  } catch (error) {
    process.exitCode = 1;
    process.stderr.write(error instanceof PlainError ? `heed: ${error.message}\n` : `${error.stack ?? error}\n`);
  }
}

/** The result of `task` and the seconds that it took. */
export async function timed(task) {
  const start = performance.now();
  const result = await task();
  return { result, seconds: (performance.now() - start) / 1000 };
}

/** `{ links: 22.4 }` as 'links 22 s', for the steps that took a second or more. */
export const listSeconds = (seconds) =>
  Object.entries(seconds)
    .filter(([, value]) => value >= 1)
    .map(([step, value]) => `${step} ${Math.round(value)} s`)
    .join(', ');

/**
 * Runs a program and waits for it to exit.
 * @param {string[]} command program and arguments
 * @param {{ cwd?: string, env?: object, quiet?: boolean, allowFailure?: boolean, onOutput?: (piece: string) => void }} options
 *   quiet: return the output instead of passing it through, and print it only on failure; onOutput: called with each piece
 * @returns {Promise<{ status: number, output: string }>}
 */
export function run(command, { cwd = root, env = {}, quiet = false, allowFailure = false, onOutput = () => {} } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(command[0], command.slice(1), {
      cwd,
      env: { ...process.env, ...env },
      stdio: quiet ? ['ignore', 'pipe', 'pipe'] : ['ignore', 'inherit', 'inherit'],
    });
    let output = '';
    child.stdout?.on('data', (chunk) => {
      output += chunk;
      onOutput(String(chunk));
    });
    child.stderr?.on('data', (chunk) => (output += chunk));
    child.on('error', (error) => {
      if (error.code !== 'ENOENT') reject(error);
      else if (allowFailure) resolve({ status: 127, output });
      else reject(new PlainError(`the program ${command[0]} is missing; \`npm run setup\` installs it on Debian`));
    });
    child.on('close', (status, signal) => {
      if (status === 0 || allowFailure) return resolve({ status: status ?? 1, output });
      if (quiet) process.stderr.write(output);
      reject(new PlainError(`\`${command.slice(0, 4).join(' ')}\` failed (${signal ?? `exit status ${status}`})`));
    });
  });
}

/**
 * Reports the progress of a slow operation until `promise` settles: label, seconds, and what `detail()` returns. A terminal
 * shows one line that is updated; a log gets one line every ten seconds. Own code, because `npm run setup` runs before any
 * package is installed.
 */
export async function withProgress(label, promise, detail = () => '') {
  const start = Date.now();
  const line = () => `heed: ${label} … ${Math.round((Date.now() - start) / 1000)} s ${detail()}`.trimEnd();
  const tty = process.stdout.isTTY;
  if (!tty) say(`${label} …`);
  const timer = setInterval(() => process.stdout.write(tty ? `\r${line()}\x1b[K` : `${line()}\n`), tty ? 500 : 10_000);
  try {
    return await promise;
  } finally {
    clearInterval(timer);
    if (tty) process.stdout.write(`\r${line()}\x1b[K\n`);
  }
}
