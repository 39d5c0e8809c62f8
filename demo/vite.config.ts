/** Builds the demo as a static site that can be served under any path; without special headers, it runs one thread. */
import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';
import { linkedScripts } from '../tools/linked-scripts.mjs';
import { isolation, policy } from './policy.mjs';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  root: here('.'),
  base: './',
  plugins: [sizes(), offline(), address(), early(), divided(), together()],
  worker: { format: 'es', plugins: () => [divided()] },
  build: {
    outDir: here('../build/demo'),
    emptyOutDir: true,
    target: 'es2022',
    // The policy forbids data: URLs.
    assetsInlineLimit: 0,
    // Without links: heed's scripts also run in its worker, which has no document.
    modulePreload: { polyfill: false, resolveDependencies: () => [] },
    // All that the first page needs is one script; otherwise, what it shares with scripts that are loaded later would be scripts of their own.
    // Vite's function that imports them is apart, because heed's worker has it, too.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: 'import', test: /vite.preload-helper|rolldown.runtime/, priority: 1 },
            { name: 'index', test: /demo.src.main\.tsx$/ },
          ],
        },
      },
    },
  },
  preview: { port: 4173, headers: { 'Content-Security-Policy': policy, ...isolation } },
});

/** Removes what heed's worker links for bundlers that cannot divide a worker (tools/build-web.mjs): this one loads it when it is used. */
function divided(): Plugin {
  return {
    name: 'heed-divided',
    transform: (code, id) =>
      /dist.(gpu|train)-worker\.js$/.test(id) ? code.replace(/import\*as part0 .*heedParts=[^;]*;/s, '') : null,
  };
}

/** Builds heed's worker with the page, so that what both need is downloaded once. Vite bundles workers apart. */
function together(): Plugin {
  let worker: string;
  return {
    name: 'heed-together',
    apply: 'build',
    enforce: 'pre',
    buildStart() {
      worker = this.emitFile({ type: 'chunk', id: here('../dist/page-worker.js'), name: 'worker' });
    },
    transform: (code, id) =>
      /dist.src-[^/]*\.js$/.test(id)
        ? code.replace(
            /(?<=new Worker\()new URL\(`\.\/worker\.js`,import\.meta\.url\)/,
            `import.meta.ROLLUP_FILE_URL_${worker}`,
          )
        : null,
  };
}

/** `import sizes from 'virtual:sizes'`: the download sizes of heed's files in bytes, compressed with Brotli. */
function sizes(): Plugin {
  const id = 'virtual:sizes';
  const dist = here('../dist/');
  return {
    name: 'heed-sizes',
    resolveId: (source) => (source === id ? `\0${id}` : null),
    load: (source) => {
      if (source !== `\0${id}`) return null;
      const brotli = (file: string) => brotliCompressSync(readFileSync(dist + file)).length;
      const scripts = linkedScripts(dist);
      const total = {
        simd128: brotli('heed-simd128.wasm'),
        'relaxed-simd': brotli('heed-relaxed-simd.wasm'),
        scripts: scripts.reduce((sum, name) => sum + brotli(name), 0),
        model: ['config.json', 'tokenizer.json', 'model.safetensors'].reduce(
          (sum, name) => sum + (statSync(here(`../web/model/${name}`), { throwIfNoEntry: false })?.size ?? 0),
          0,
        ),
      };
      return `export default ${JSON.stringify(total)}`;
    },
  };
}

/** Files of the page “Learning”, and the builds of the module, of which a browser runs one: the service worker keeps them when they are first fetched. */
const loadedLater = /learning|train|\.wasm$/;

/** Writes `sw.js` from src/offline/service-worker.js, with the list of the files that were built. */
function offline(): Plugin {
  const source = here('src/offline/service-worker.js');
  const copied = ['favicon.svg'];
  return {
    name: 'heed-offline',
    apply: 'build',
    // After Vite has removed scripts that only import another one.
    generateBundle: {
      order: 'post',
      handler(_, bundle) {
        const files = [
          './',
          ...copied,
          ...Object.keys(bundle).filter((name) => !name.endsWith('.map') && !loadedLater.test(name)),
        ];
        // The names of all files but index.html contain a hash of their contents.
        const version = createHash('sha256');
        for (const file of Object.values(bundle)) {
          version.update(file.fileName).update(file.type === 'chunk' ? file.code : file.source);
        }
        const code = readFileSync(source, 'utf8')
          .replace('__FILES__', JSON.stringify(files))
          .replace('__VERSION__', JSON.stringify(version.digest('hex').slice(0, 12)));
        this.emitFile({ type: 'asset', fileName: 'sw.js', source: code });
      },
    },
  };
}

/** Makes the address of the share picture absolute, as sites that show it require. The variable DEMO_URL names another address than that of the published demo. */
function address(): Plugin {
  const url = (process.env.DEMO_URL ?? 'https://heed.github.io/heed/').replace(/\/?$/, '/');
  return {
    name: 'heed-address',
    transformIndexHtml: (html) =>
      html
        .replace('content="./share.png"', `content="${new URL('share.png', url).href}"`)
        .replace('<meta property="og:type"', `<meta property="og:url" content="${url}" />\n    $&`),
  };
}

/** Adds src/early.ts to the page as a script of its own. Scripts that index.html names would become one. */
function early(): Plugin {
  const id = here('src/early.ts');
  return {
    name: 'heed-early',
    apply: 'build',
    buildStart() {
      this.emitFile({ type: 'chunk', id });
    },
    transformIndexHtml: {
      order: 'post',
      handler: (_, { bundle = {} }) => {
        const chunk = Object.values(bundle).find((file) => file.type === 'chunk' && file.facadeModuleId === id);
        const src = `./${chunk!.fileName}`;
        return [{ tag: 'script', attrs: { type: 'module', async: true, crossorigin: true, src }, injectTo: 'head' }];
      },
    },
  };
}
