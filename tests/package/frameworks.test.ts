// Frameworks with builds of their own: a build and the development server, with the model in the page and in a worker. Next.js is in
// bundlers.test.ts. Angular and Nuxt are in folders of their own, because they need other versions of the same tools.
import * as fs from 'node:fs';
import { join } from 'node:path';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { launchChromium } from '../../tools/chromium.mjs';
import { install, root, run } from './installed.js';
import { checkPage } from './page.js';
import { serve } from './serve.js';
import { withServer } from './started.js';

let browser: Browser;
beforeAll(async () => {
  browser = await launchChromium();
});
afterAll(() => browser?.close());

const packages = (name: string) => join(root, 'tests/package', name);
const bundlers = packages('bundlers');
// Astro 6 and later need Node 22.12.
const isNew = Number(process.versions.node.split('.')[0]) >= 22;
const node22 = isNew ? process.execPath : join(bundlers, 'node_modules/node-22/bin/node');

interface Framework {
  /** The folder in tests/package with its packages. */
  project: string;
  /** The path of its program in node_modules. */
  program: string;
  build: string[];
  /** The folder that `build` writes. */
  out: string;
  dev: string[];
  env?: Record<string, string>;
  node?: string;
  prepare?(folder: string): void;
}

const frameworks: Record<string, Framework> = {
  angular: {
    project: 'angular-20',
    program: '@angular/cli/bin/ng.js',
    build: ['build'],
    out: 'out',
    dev: ['serve', '--host', '127.0.0.1', '--port', '0'],
    // Angular does not prebundle packages where CI is set, so the setting for `ng serve` would not be tested.
    env: { CI: '', NG_CLI_ANALYTICS: 'false' },
  },
  nuxt: {
    project: 'nuxt-4',
    program: 'nuxt/bin/nuxt.mjs',
    build: ['generate'],
    out: '.output/public',
    dev: ['dev', '--host', '127.0.0.1', '--port', '0', '--no-fork'],
    env: { NUXT_TELEMETRY_DISABLED: '1' },
  },
  sveltekit: {
    project: 'bundlers',
    program: 'vite/bin/vite.js',
    build: ['build', '--logLevel', 'error'],
    out: 'out',
    dev: ['dev', '--host', '127.0.0.1', '--port', '0'],
    prepare: (folder) =>
      fs.writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'app', private: true, type: 'module' })),
  },
  astro: {
    project: 'bundlers',
    program: 'astro/bin/astro.mjs',
    build: ['build'],
    out: 'dist',
    dev: ['dev', '--host', '127.0.0.1', '--port', '0'],
    env: { ASTRO_TELEMETRY_DISABLED: '1' },
    node: node22,
    // Instead of the repository's, whose paths Astro would follow.
    prepare: (folder) => fs.writeFileSync(join(folder, 'tsconfig.json'), '{}'),
  },
};

describe.each(Object.entries(frameworks))('%s', (name, { project, program, build, out, dev, env, node, prepare }) => {
  const script = join(packages(project), 'node_modules', program);
  const app = (kind: string) => {
    const folder = install(`${name}-${kind}`, name, join(packages(project), 'apps'));
    prepare?.(folder);
    return folder;
  };

  test('a build', async () => {
    const folder = app('build');
    await run(node ?? process.execPath, [script, ...build], { cwd: folder, env });
    await using server = await serve(join(folder, out));
    await checkPage(browser, server.url);
    expect(server.missing).toEqual([]);
  });

  test('the development server', async () => {
    const folder = app('dev');
    await withServer([script, ...dev], { cwd: folder, env, node }, (address) => checkPage(browser, address));
  });
});
