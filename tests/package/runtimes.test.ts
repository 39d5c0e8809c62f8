// The installed package in runtimes other than Node and browsers: Deno, Bun, and two that cannot compile WebAssembly and
// receive a compiled module. tests/package/bundlers installs Deno, Bun and workerd; without them, their tests are skipped.
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { build as esbuild } from 'esbuild';
import { beforeAll, describe, expect, test } from 'vitest';
import { apps, install, root, run, runNode, type Smoke } from './installed.js';
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

/** A copy of a recipe with the installed package. */
function recipe(name: string): string {
  const folder = install(`recipe-${name}`);
  fs.cpSync(join(root, 'examples/recipes', name), folder, { recursive: true });
  return folder;
}

describe('Deno, whose permissions are not asked for', () => {
  const deno = brought('deno/deno');
  const flags = ['--no-prompt', '--node-modules-dir=manual', '--no-lock', '--no-config'];
  const runDeno = (permissions: string[], script: string, cwd: string) =>
    run(deno!, ['run', ...permissions, ...flags, script], { cwd, env: { NO_COLOR: '1' } });

  test.skipIf(!deno)('the recipe, with --allow-read alone', async () => {
    const cwd = recipe('deno');
    const { tasks } = JSON.parse(fs.readFileSync(join(cwd, 'deno.json'), 'utf8'));
    expect(tasks.search).toBe('deno run --allow-read search.mjs');
    const printed = await runDeno(['--allow-read'], 'search.mjs', cwd);
    expect(printed).toBe('Fry the onions, then add the rice and the stock.\n');
  });

  test.skipIf(!deno)('with --allow-read alone, also a worker, hybrid search, reranking and training', async () => {
    const cwd = install('deno-read');
    fs.writeFileSync(
      join(cwd, 'main.mjs'),
      `import { load, rerank } from 'heed';
      import { load as loadTraining } from 'heed/train';
      const heed = await load();
      const model = await heed.fromPretrained(undefined, { worker: true });
      const index = await heed.TextIndex.of(model, ['The cat sleeps.', 'Fry the onions.']);
      const [hit] = await index.search('onions', { hybrid: true });
      const [best] = await rerank(model, 'a meal', ['The cat sleeps.', 'Fry the onions.']);
      const refused = await heed.fromPretrained('https://example.com/model').catch((error) => error);
      const training = await loadTraining();
      console.log(JSON.stringify([hit.text, best.index, refused.name, refused.code, typeof training.losses.mse]));
      heed.dispose();`,
    );
    const printed = await runDeno(['--allow-read'], 'main.mjs', cwd);
    expect(JSON.parse(printed)).toEqual(['Fry the onions.', 1, 'HeedError', 'NETWORK', 'function']);
  });

  test.skipIf(!deno)('without any permission, the error names the one that is missing', async () => {
    const cwd = install('deno-none');
    const script =
      "import { load } from 'heed'; await load().catch(({ name, message }) => console.log(name, message));";
    fs.writeFileSync(join(cwd, 'main.mjs'), script);
    expect(await runDeno([], 'main.mjs', cwd)).toMatch(/^HeedError .*--allow-read/);
  });
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
    await withWorkerd(edge, async () =>
      checkResult((await ask(`http://127.0.0.1:${port}/`)) as { result?: Smoke; failure?: string }, false),
    );
  });

  test.skipIf(!workerd)('the recipe, in workerd', async () => {
    const cwd = recipe('workerd');
    await bundleAsWrangler(cwd);
    const port = await freePort();
    const names = fs.readdirSync(join(cwd, 'out'));
    const modules = names.map((name) => {
      const type = name.endsWith('.wasm') ? 'wasm' : name.endsWith('.safetensors') ? 'data' : 'esModule';
      return `(name = "${name}", ${type} = embed "out/${name}"),`;
    });
    modules.sort((a, b) => Number(b.includes('"worker.js"')) - Number(a.includes('"worker.js"'))); // the first is the program
    const config = fs.readFileSync(join(apps, 'edge/workerd.capnp'), 'utf8').replace(/modules = \[[^\]]*\]/, () => {
      return `modules = [\n${modules.join('\n')}\n]`;
    });
    fs.writeFileSync(join(cwd, 'workerd.capnp'), config.replace('PORT', String(port)));
    await withWorkerd(cwd, async () => {
      const url = `http://127.0.0.1:${port}/`;
      expect(await ask(url)).toEqual({ error: 'q is missing' });
      const { hits } = (await ask(`${url}?q=preparing+a+meal`)) as { hits: { text: string }[] };
      expect(hits[0]!.text).toContain('onions');
    });
  });

  /** Runs `body` while workerd serves workerd.capnp. */
  async function withWorkerd(cwd: string, body: () => Promise<void>): Promise<void> {
    const server = spawn(workerd!, ['serve', 'workerd.capnp'], { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
    try {
      const gone = new Promise<never>((_, reject) => {
        server.on('exit', (code) => reject(new Error(`workerd ended (exit code ${code})`)));
      });
      await Promise.race([body(), gone]);
    } finally {
      server.kill();
    }
  }
});

/** Bundles worker.js as Wrangler does: files that a rule of wrangler.toml names become modules beside the script. */
async function bundleAsWrangler(cwd: string): Promise<void> {
  const rules = fs.readFileSync(join(cwd, 'wrangler.toml'), 'utf8');
  const endings = [...rules.matchAll(/"\*\*\/\*\.(\w+)"/g)].map(([, ending]) => ending!);
  expect(endings).toEqual(['wasm', 'safetensors']);
  const out = join(cwd, 'out');
  fs.mkdirSync(out);
  await esbuild({
    entryPoints: [join(cwd, 'worker.js')],
    outdir: out,
    bundle: true,
    format: 'esm',
    conditions: ['workerd', 'worker', 'browser'],
    plugins: [
      {
        name: 'modules',
        setup: (build) =>
          build.onResolve(
            { filter: new RegExp(`\\.(${endings.join('|')})$`) },
            async ({ path, resolveDir, kind, pluginData }) => {
              if (pluginData === 'seen') return undefined;
              const { path: file } = await build.resolve(path, { resolveDir, kind, pluginData: 'seen' });
              const name = file.split('/').at(-1)!;
              fs.copyFileSync(file, join(out, name));
              return { path: `./${name}`, external: true };
            },
          ),
      },
    ],
  });
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Requests `url` until the server answers. */
async function ask(url: string): Promise<unknown> {
  for (;;) {
    const response = await fetch(url).catch(() => null);
    if (response) return response.json();
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
