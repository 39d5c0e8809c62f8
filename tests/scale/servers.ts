/** Debian's redis-server and PostgreSQL for the tests, on free ports and in temporary folders. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
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

/** Resolves when the server says that it is ready, which it is not yet when it listens; rejects if it ends first. */
async function ready(child: ChildProcess): Promise<void> {
  let log = '';
  await new Promise<void>((resolve, reject) => {
    const read = (data: Buffer) => {
      log += data;
      if (/ready to accept connections/i.test(log)) resolve();
    };
    child.stdout?.on('data', read);
    child.stderr?.on('data', read);
    child.on('close', () => reject(new Error(`the server ended: ${log}`)));
  });
}

/** A server that `start` starts in a folder, which `clear` empties. */
async function serve(url: string, folder: string, clear: () => void, start: () => ChildProcess): Promise<Server> {
  let child: ChildProcess;
  const run = async () => {
    clear();
    child = start();
    await ready(child);
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

/** `options`: further ones of redis-server. */
export async function startRedis(...options: string[]): Promise<Server> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'heed-redis-'));
  const port = await freePort();
  const args = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--dir',
    folder,
    '--save',
    '',
    '--appendonly',
    'no',
    ...options,
  ];
  return serve(
    `redis://127.0.0.1:${port}`,
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

/** `auth`: how users are authenticated; `password`: that of the user heed. */
export async function startPostgres(auth = 'trust', password = ''): Promise<Server> {
  const folder = fs.mkdtempSync(join(tmpdir(), 'heed-postgres-'));
  const user = postgresUser();
  if (user.uid !== undefined) fs.chownSync(folder, user.uid, user.gid!);
  const port = await freePort();
  const fresh = join(folder, 'fresh');
  const data = join(folder, 'data');
  const options = { ...user, cwd: folder, env: { ...process.env, LC_ALL: 'C' } };
  const passwordFile = join(folder, 'password');
  fs.writeFileSync(passwordFile, `${password}\n`);
  const init = ['-D', fresh, '-U', 'heed', '-A', auth, '--no-sync', ...(password ? ['--pwfile', passwordFile] : [])];
  execFileSync(postgresProgram('initdb'), init, { ...options, stdio: 'pipe' });
  const clear = () => {
    fs.rmSync(data, { recursive: true, force: true });
    execFileSync('cp', ['-a', fresh, data], options);
  };
  const args = ['-D', data, '-p', String(port), '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='];
  const url = `postgres://heed@127.0.0.1:${port}/postgres`;
  return serve(url, folder, clear, () => spawn(postgresProgram('postgres'), args, options));
}
