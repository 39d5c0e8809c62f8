/** Every notebook of the course in Deno's Jupyter kernel, started and driven by Jupyter's own client. */
import { execFile, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { chapters, jupyter } from '../../tools/course.mjs';
import { ensureDebianPackages, ensurePackages } from '../../tools/setup.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const tools = join(root, 'tests/tools/notebooks');
const python = join(root, 'build/jupyter/bin/python');
const withCode = chapters().filter(({ name }) => name !== 'index');
let folder: string;
let registry: Server;

function check(program: string, args: string[]): void {
  const { status, stderr } = spawnSync(program, args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`);
}

/** npm's registry with this package alone, as `npm pack` makes it, because the notebooks import it by its name and version. */
function registryOf(tarball: string): Server {
  const archive = readFileSync(tarball);
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const integrity = `sha512-${createHash('sha512').update(archive).digest('base64')}`;
  return createServer((request, response) => {
    if (request.url === '/heed') {
      const dist = { tarball: `http://${request.headers.host}/heed.tgz`, integrity };
      const versions = { [manifest.version]: { ...manifest, dist } };
      response.end(JSON.stringify({ name: 'heed', 'dist-tags': { latest: manifest.version }, versions }));
    } else if (request.url === '/heed.tgz') response.end(archive);
    else response.writeHead(404).end(); // optional peer dependencies
  });
}

beforeAll(async () => {
  await ensurePackages('tests/tools/notebooks');
  if (!existsSync(join(root, 'build/jupyter/bin/pip'))) {
    const venv = ['-m', 'venv', join(root, 'build/jupyter')];
    if (spawnSync('python3', venv).status !== 0) {
      await ensureDebianPackages(['python3-venv']); // Debian's python3 comes without it
      check('python3', venv);
    }
  }
  check(python, ['-m', 'pip', 'install', '-q', '-r', join(tools, 'requirements.txt')]);
  folder = mkdtempSync(join(tmpdir(), 'heed-jupyter-')); // outside of the repository, whose package.json Deno would follow
  check('npm', ['pack', '--silent', '--ignore-scripts', '--pack-destination', folder]);
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  registry = registryOf(join(folder, `heed-${version}.tgz`));
  await new Promise<void>((resolve) => registry.listen(0, resolve));
});
afterAll(() => {
  registry?.close();
  rmSync(folder, { recursive: true, force: true });
});

test('every cell of every notebook prints what its chapter prints', async () => {
  const files = withCode.map(({ name }) => join(folder, `${name}.ipynb`));
  for (const [i, { text }] of withCode.entries()) writeFileSync(files[i]!, jupyter(text));
  const { stdout } = await promisify(execFile)(
    python,
    [join(tools, 'run_jupyter.py'), join(tools, 'node_modules/deno/deno'), ...files],
    {
      maxBuffer: 1 << 26,
      env: {
        ...process.env,
        NPM_CONFIG_REGISTRY: `http://localhost:${(registry.address() as AddressInfo).port}/`,
        DENO_DIR: join(folder, 'deno'),
        NO_COLOR: '1',
      },
    },
  );
  const printed: Record<string, string[]> = JSON.parse(stdout);
  for (const { name, text } of withCode) {
    const open = text.replaceAll(/^<details>.*?^<\/details>$/gms, '// your answer');
    const expected = [...open.matchAll(/^```js\n.*?^```\n(?:\n```text\n(.*?)^```)?|^\/\/ your answer$/gms)];
    expect(printed[name], name).toEqual(expected.map(([, output]) => output ?? ''));
  }
}, 900_000);
