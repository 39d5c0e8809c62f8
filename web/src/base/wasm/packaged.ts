/** Finds the package's files, also if a bundler has moved heed's scripts but not these files. */
import { HeedError } from '../error.js';
import { nodeModule } from '../platform.js';
import { version } from './version.js';

/**
 * Returns the URL of a file of the package that `make` makes from `import.meta.url`, which some environments (workerd)
 * do not have.
 */
export function beside(argument: string, make: () => URL, hint: string): URL {
  try {
    return make();
  } catch (cause) {
    const why = 'this environment does not tell scripts where the files of the package are';
    throw new HeedError('NOT_FOUND', `${argument}: ${why}. ${hint}`, { cause });
  }
}

/**
 * Whether Vite's development server has moved the script at `url` to its folder of pre-bundled dependencies, such as
 * node_modules/.vite/deps.
 */
export const isPrepared = (url: string) => /\/node_modules\/\.[^?#]*\/deps\/[^/]*$/.test(url);

/**
 * Returns the URL of a file of the package. `url` is relative to heed's script; most bundlers replace it with the URL
 * of a copy.
 *
 * Vite's development server, before Vite 8, moves only the script; the file stays in node_modules/heed/dist. Bundlers
 * for servers, such as Next.js's, produce the URL for browsers; Node reads the file from the installed package instead.
 * Turbopack produces a renamed copy in a folder where Node treats scripts as CommonJS.
 */
export function packaged(name: string, url: URL): URL {
  const { protocol, pathname } = url;
  const prepared = pathname.lastIndexOf('/node_modules/.');
  if (prepared >= 0 && pathname.endsWith(`/deps/${name}`))
    return new URL(`${pathname.slice(0, prepared)}/node_modules/heed/dist/${name}`, url);
  const fs = nodeModule<typeof import('node:fs')>('fs');
  if (
    !fs ||
    /^(https?|blob|data):$/.test(protocol) ||
    (protocol === 'file:' && pathname.endsWith(`/${name}`) && mayExist(fs, url))
  )
    return url;
  return installed(name) ?? url;
}

/** Whether there is a file at `url`; true if Deno's permissions hide it, because reading it then says which one is missing. */
function mayExist(fs: typeof import('node:fs'), url: URL): boolean {
  try {
    return fs.existsSync(url);
  } catch {
    return true;
  }
}

/**
 * The file in the installed package of the same version, resolved from the process's working directory; null if there
 * is none.
 */
function installed(name: string): URL | null {
  const { createRequire } = nodeModule<typeof import('node:module')>('module')!;
  const { pathToFileURL } = nodeModule<typeof import('node:url')>('url')!;
  try {
    const require = createRequire(`${nodeModule<typeof import('node:process')>('process')!.cwd()}/package.json`);
    const found = require.resolve('heed/package.json');
    return require(found).version === version ? new URL(`./dist/${name}`, pathToFileURL(found)) : null;
  } catch {
    return null;
  }
}
