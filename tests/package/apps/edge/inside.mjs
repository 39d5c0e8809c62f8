// The same in a Node vm context that can neither compile WebAssembly nor evaluate strings, has no `import.meta.url` and no
// Node APIs: `node --experimental-vm-modules inside.mjs`.
import { readFileSync } from 'node:fs';
import vm from 'node:vm';

const globals = { TextDecoder, TextEncoder, URL, URLSearchParams, performance, setTimeout, clearTimeout, queueMicrotask, AbortController, Blob, MessageChannel, Event, EventTarget, DOMException, Response, atob, console }; // biome-ignore format: a list
const context = vm.createContext({ ...globals }, { codeGeneration: { strings: false, wasm: false } });
const wasm = new WebAssembly.Module(readFileSync(new URL('./heed.wasm', import.meta.url)));
const { default: model } = await import('./model.js');
const given = { './heed.wasm': wasm, './model.js': model };

const known = new Map();
async function link(specifier, parent) {
  const url = new URL(specifier, parent.identifier).href;
  if (!known.has(url)) {
    known.set(
      url,
      specifier in given
        ? new vm.SyntheticModule(['default'], function () { this.setExport('default', given[specifier]); }, { context, identifier: url }) // biome-ignore format: one call
        : new vm.SourceTextModule(readFileSync(new URL(url), 'utf8'), { context, identifier: url }),
    );
  }
  return known.get(url);
}

let refused = '';
try {
  await vm.runInContext('WebAssembly.compile(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]))', context);
} catch (error) {
  refused = error.name;
}
const main = await link('./main.mjs', { identifier: import.meta.url });
await main.link(link);
await main.evaluate();
console.log(JSON.stringify({ refused, result: await main.namespace.answer() }));
