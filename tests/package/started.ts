// Servers that run as processes of their own: those of frameworks, for development and for production.
import { spawn } from 'node:child_process';
import { stripVTControlCharacters } from 'node:util';

interface StartOptions {
  cwd: string;
  env?: Record<string, string>;
  /** What the server prints when it listens; its first group is the address. */
  ready?: RegExp;
  /** Another version of Node. */
  node?: string;
}

/** Runs `node ...args` until `body` is done, which gets the address that the program prints. */
export async function withServer(
  args: string[],
  { cwd, env, ready = /(http:\/\/(?:127\.0\.0\.1|localhost):\d+)/, node = process.execPath }: StartOptions,
  body: (address: string) => Promise<void>,
) {
  const own = { ...process.env };
  // With these variables, which Vitest sets, frameworks would serve for tests, or print nothing.
  for (const name of ['NODE_ENV', 'VITEST', 'TEST']) delete own[name];
  const server = spawn(node, args, { cwd, env: { ...own, NO_COLOR: '1', ...env }, detached: true });
  let said = '';
  try {
    const address = await new Promise<string>((resolve, reject) => {
      server.once('exit', () => reject(new Error(said)));
      for (const stream of [server.stdout, server.stderr])
        stream.on('data', (bytes: Buffer) => {
          said += bytes;
          const found = ready.exec(stripVTControlCharacters(said))?.[1];
          if (found) resolve(found);
        });
    });
    await body(address).catch((error: Error) => {
      throw new Error(`${error.message}\nthe server said: ${said}`, { cause: error });
    });
  } finally {
    server.removeAllListeners('exit');
    stop(server.pid!);
  }
}

/** Ends the process and those that it started. */
function stop(pid: number) {
  try {
    process.kill(-pid);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // it has ended already
  }
}
