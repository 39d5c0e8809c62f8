// The installed package in runtimes other than Node and browsers: Deno, Bun, and two that cannot compile WebAssembly and
// receive a compiled module. tests/package/bundlers installs Deno, Bun and workerd; without them, their tests are skipped.
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { apps, install, run, runNode, type Smoke } from './installed.js';
import { checkResult } from './page.js';

const brought = (path: string) => {
  const program = join(import.meta.dirname, 'bundlers/node_modules', path);
  return fs.existsSync(program) ? program : null;
};

let folder: string;
beforeAll(async () => {
  folder = install('runtimes', 'plain');
  const worker = '{ worker: false }';
  fs.writeFileSync(
    join(folder, 'run.mjs'),
    `import * as heed from 'heed'; import { smoke } from './smoke.js'; console.log(JSON.stringify(await smoke(heed, ${worker})));`,
  );
});

describe.each([
  ['Deno', 'deno/deno', ['run', '--allow-all', '--node-modules-dir=manual', '--no-lock', 'run.mjs']],
  ['Bun', 'bun/bin/bun', ['run', 'run.mjs']],
])('%s', (name, path, args) => {
  const program = brought(path);
  test.skipIf(!program)(
    program ? 'runs the package' : `skipped: \`npm run test:bundlers\` installs ${name}`,
    async () => {
      const printed = await run(program!, args, { cwd: folder, env: { NO_COLOR: '1' } });
      checkResult({ result: JSON.parse(printed.trim().split('\n').at(-1)!) }, false);
    },
  );
});

describe('an edge runtime that can only use a compiled module', () => {
  let edge: string;
  beforeAll(async () => {
    edge = install('edge', 'edge');
    const dist = join(edge, 'node_modules/heed/dist');
    fs.cpSync(dist, join(edge, 'heed'), { recursive: true });
    fs.copyFileSync(join(dist, 'heed-simd128.wasm'), join(edge, 'heed.wasm'));
    fs.copyFileSync(join(dist, 'model/model.safetensors'), join(edge, 'model.safetensors'));
    const read = "new Uint8Array(readFileSync(new URL('./model.safetensors', import.meta.url)))";
    fs.writeFileSync(join(edge, 'model.js'), `import { readFileSync } from 'node:fs';\nexport default ${read};\n`);
    fs.writeFileSync(join(edge, 'package.json'), JSON.stringify({ type: 'module' }));
  });

  test('in a Node vm context', async () => {
    const printed = await runNode(['--no-warnings', '--experimental-vm-modules', 'inside.mjs'], { cwd: edge });
    const { refused, result } = JSON.parse(printed);
    expect(refused).toBe('CompileError');
    checkResult({ result }, false);
  });

  const workerd = brought('workerd/bin/workerd');
  test.skipIf(!workerd)(workerd ? 'in workerd' : 'in workerd: `npm run test:bundlers` installs it', async () => {
    const port = await freePort();
    const scripts = fs.readdirSync(join(edge, 'heed')).filter((name) => name.endsWith('.js') && name !== 'cli.js');
    const modules = scripts.map((name) => `(name = "heed/${name}", esModule = embed "heed/${name}"),`).join('\n');
    const config = fs.readFileSync(join(apps, 'edge/workerd.capnp'), 'utf8');
    fs.writeFileSync(join(edge, 'workerd.capnp'), config.replace('PORT', String(port)).replace('MODULES', modules));
    const server = spawn(workerd!, ['serve', 'workerd.capnp'], { cwd: edge, stdio: ['ignore', 'inherit', 'inherit'] });
    try {
      const gone = new Promise<never>((_, reject) => {
        server.on('exit', (code) => reject(new Error(`workerd ended (exit code ${code})`)));
      });
      checkResult(await Promise.race([ask(`http://127.0.0.1:${port}/`), gone]), false);
    } finally {
      server.kill();
    }
  });
});

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Requests `url` until the server answers. */
async function ask(url: string): Promise<{ result?: Smoke; failure?: string }> {
  for (;;) {
    const response = await fetch(url).catch(() => null);
    if (response) return (await response.json()) as { result?: Smoke };
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
