/** Debian's redis-server and PostgreSQL for the tests, on free ports and in temporary folders. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Server {
  readonly url: string;
  /** Kills the server with SIGKILL, and starts it again at the same address, without its data. */
  restartEmpty(): Promise<void>;
  /** Kills the server with SIGKILL. */
  kill(): Promise<void>;
  /** Stops it and deletes its folder. */
  stop(): Promise<void>;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Resolves when something accepts connections at the port; rejects if `child` ends first. */
async function listening(port: number, child: ChildProcess, log: () => string): Promise<void> {
  while (child.exitCode === null && child.signalCode === null) {
    const socket = connect(port, '127.0.0.1');
    const isOpen = await Promise.race([
      once(socket, 'connect').then(() => true),
      once(socket, 'error').then(() => false),
    ]).catch(() => false);
    socket.destroy();
    if (isOpen) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the server ended: ${log()}`);
}

/** A server that `start` starts in a folder, which `clear` empties. */
async function serve(
  url: string,
  port: number,
  folder: string,
  clear: () => void,
  start: () => ChildProcess,
): Promise<Server> {
  let child: ChildProcess;
  const run = async () => {
    clear();
    child = start();
    let log = '';
    child.stdout?.on('data', (data) => (log += data));
    child.stderr?.on('data', (data) => (log += data));
    await listening(port, child, () => log);
  };
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'close'); // also of the children that have its output
  };
  const stop = async () => {
    await kill();
    fs.rmSync(folder, { recursive: true, force: true });
  };
  await run();
  return { url, kill, stop, restartEmpty: () => kill().then(run) };
}

export async function startRedis(): Promise<Server> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'heed-redis-'));
  const port = await freePort();
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder, '--save', '', '--appendonly', 'no'];
  return serve(
    `redis://127.0.0.1:${port}`,
    port,
    folder,
    () => {},
    () => spawn('redis-server', args),
  );
}

/** The newest PostgreSQL of Debian's packages, whose programs are not on the path. */
function postgresProgram(name: string): string {
  const folder = '/usr/lib/postgresql';
  const versions = fs.existsSync(folder) ? fs.readdirSync(folder).sort((a, b) => Number(b) - Number(a)) : [];
  return versions.map((version) => join(folder, version, 'bin', name)).find((path) => fs.existsSync(path)) ?? name;
}

/** PostgreSQL refuses to run as root; there, it runs as the user that Debian's package makes. */
function postgresUser(): { uid?: number; gid?: number } {
  if (process.getuid!() !== 0) return {};
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

export async function startPostgres(): Promise<Server> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'heed-postgres-'));
  const user = postgresUser();
  if (user.uid !== undefined) fs.chownSync(folder, user.uid, user.gid!);
  const port = await freePort();
  const fresh = join(folder, 'fresh');
  const data = join(folder, 'data');
  const options = { ...user, cwd: folder, env: { ...process.env, LC_ALL: 'C' } };
  const init = ['-D', fresh, '-U', 'heed', '-A', 'trust', '--no-sync'];
  execFileSync(postgresProgram('initdb'), init, { ...options, stdio: 'pipe' });
  const clear = () => {
    fs.rmSync(data, { recursive: true, force: true });
    execFileSync('cp', ['-a', fresh, data], options);
  };
  const args = ['-D', data, '-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='];
  const url = `postgres://heed@127.0.0.1:${port}/postgres`;
  return serve(url, port, folder, clear, () => spawn(postgresProgram('postgres'), args, options));
}
