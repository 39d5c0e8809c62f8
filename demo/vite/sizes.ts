/** `import sizes from 'virtual:sizes'`: what a visitor of the page downloads for heed itself, in bytes, compressed as servers do. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import type { Plugin } from 'vite';

const id = 'virtual:sizes';
const dist = new URL('../../dist/', import.meta.url);

export function sizes(): Plugin {
  return {
    name: 'heed-sizes',
    resolveId: (source) => (source === id ? `\0${id}` : null),
    load: (source) => {
      if (source !== `\0${id}`) return null;
      const size = (name: string) => {
        const file = readFileSync(fileURLToPath(new URL(name, dist)));
        return { raw: file.length, brotli: brotliCompressSync(file).length };
      };
      return `export default ${JSON.stringify({ 'simd128': size('heed-simd128.wasm'), 'relaxed-simd': size('heed-relaxed-simd.wasm'), face: size('index.js') })}`;
    },
  };
}
