/** The worker's side: loads one model and runs its methods. */
import type { HubOptions } from '../base/hub-options.js';
import type { Runtime } from '../base/owned.js';
import { type Glue, instantiate, locate, type WasmModule } from '../base/wasm/module.js';
import type { ModelFolder, OpenFile, OpenOptions } from '../io/files.js';
import { loadPretrained } from '../loading/load-pretrained.js';
import type { PretrainedModel } from '../models/model.js';
import { Channel } from './channel.js';
import { buffersOf, type FileRequest, GREETING, type Message } from './protocol.js';

/**
 * @internal Returns the handler of the main thread's messages, which answers with `post`. `glue`: Emscripten's code for
 *   the main thread's WebAssembly module. `loadStore`: loads the module of indexes in this worker. `others`: methods in
 *   addition to a model's. `loadModel`: loads the model. `setParts`: takes the URL of worker-parts.js.
 */
export function makeHandler(
  glue: Glue,
  post: (message: Message, transfer: ArrayBuffer[]) => void,
  loadStore: () => Promise<typeof import('./worker-store.js')>,
  others: Record<string, (...args: never[]) => Promise<unknown>> = {},
  loadModel = loadPretrained,
  setParts: (url: string) => void = () => {},
): (message: Message) => void {
  let model: PretrainedModel;
  let runtime: Runtime;

  async function load(
    source: Parameters<typeof loadPretrained>[1] | null,
    wasm: WasmModule,
    threads: number,
    parts: string,
    { hub = {}, ...options }: { hub?: HubOptions | undefined },
  ): Promise<unknown> {
    setParts(parts);
    // Not `load`, which can start workers: Turbopack does not terminate if a worker's script refers to itself.
    const core = await instantiate(glue, locate(wasm, 'wasm'), { count: threads, reason: '' });
    const folder = source === null ? servedFolder(channel) : undefined;
    runtime = { core, calls: core, owned: new Set(), hub };
    model = await loadModel(runtime, source ?? '', options, folder);
    return model.config;
  }

  const own: Record<string, (...args: never[]) => Promise<unknown>> = {
    ...others,
    load,
    store: async (...call: [number, string, ...never[]]) => (await loadStore()).callStore(runtime, ...call),
    [GREETING]: async () => Object.keys(own),
  };
  const channel = new Channel(
    (message) => post(message, message.type === 'result' ? buffersOf(message.value) : []),
    (method, args: never[]) =>
      own[method]?.(...args) ??
      (model as unknown as Record<string, (...args: never[]) => Promise<unknown>>)[method]!(...args),
  );
  return (message) => channel.receive(message);
}

/** The folder whose files the main thread serves. */
function servedFolder(channel: Channel): ModelFolder {
  const opened = new Map<string, number>();
  const ask = <T>(request: FileRequest) => channel.call<T | null>('file', [request]);
  async function open(path: string, { required = false }: OpenOptions): Promise<OpenFile | null> {
    const nth = opened.get(path) ?? 0;
    opened.set(path, nth + 1);
    const file = await ask<Omit<OpenFile, 'chunks'>>({ path, nth, required });
    return file && { ...file, chunks: () => chunksOf({ path, nth, required }) };
  }
  async function* chunksOf(file: FileRequest): AsyncIterable<Uint8Array> {
    for (let chunk = 0; ; chunk++) {
      const bytes = await ask<Uint8Array>({ ...file, chunk });
      if (bytes === null) return;
      yield bytes;
    }
  }
  return { open: open as ModelFolder['open'] };
}
