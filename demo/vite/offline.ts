/** Writes the service worker: `sw.js` from src/offline/service-worker.js, with the list of the files that were built. */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Plugin } from 'vite';

const source = fileURLToPath(new URL('../src/offline/service-worker.js', import.meta.url));
const copied = ['favicon.svg'];

export function offline(): Plugin {
  return {
    name: 'heed-offline',
    apply: 'build',
    generateBundle(_, bundle) {
      const files = ['./', ...copied, ...Object.keys(bundle).filter((name) => !name.endsWith('.map'))];
      // File names carry their contents' hashes, save the page's own.
      const version = createHash('sha256');
      for (const file of Object.values(bundle)) version.update(file.fileName).update(file.type === 'chunk' ? file.code : file.source);
      const code = readFileSync(source, 'utf8')
        .replace('__FILES__', JSON.stringify(files))
        .replace('__VERSION__', JSON.stringify(version.digest('hex').slice(0, 12)));
      this.emitFile({ type: 'asset', fileName: 'sw.js', source: code });
    },
  };
}
