/** The JavaScript that Emscripten generates with the modules; the build resolves the paths. */
declare module 'heed-glue/inference' {
  export type CreateModule = (options: {
    instantiateWasm(
      imports: WebAssembly.Imports,
      done: (instance: WebAssembly.Instance) => void,
    ): Record<string, never>;
    /** The memory of a build with threads. */
    wasmMemory?: WebAssembly.Memory;
    /** What the bindings throw. */
    HeedError: typeof import('./error.js').HeedError;
  }) => Promise<import('./core.js').Core & { stackSave(): number; stackRestore(pointer: number): void }>;
  const createModule: CreateModule;
  export default createModule;
}

declare module 'heed-glue/threads' {
  export { default } from 'heed-glue/inference';
}

declare module 'heed-glue/training' {
  export { default } from 'heed-glue/inference';
}
