/** The demo page: a static site that any host can serve, under any path, without special headers. */
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vite';
import { offline } from './vite/offline';
import { sizes } from './vite/sizes';

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

/** index.html says the same; as headers it binds the worker too. */
const policy = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; base-uri 'none'; form-action 'none'";

export default defineConfig({
  root: here('.'),
  base: './',
  plugins: [sizes(), offline()],
  worker: { format: 'es' },
  build: {
    outDir: here('../build/demo'),
    emptyOutDir: true,
    target: 'es2022',
    // A data: URL could not be fetched under the policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  preview: { port: 4173, headers: { 'Content-Security-Policy': policy } },
});
