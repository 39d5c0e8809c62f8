/** The JavaScript that Emscripten generates with the modules; the build resolves its path. */
declare module 'heed-glue' {
  export default function createModule(options: {
    instantiateWasm(
      imports: WebAssembly.Imports,
      done: (instance: WebAssembly.Instance) => void,
    ): Record<string, never>;
    /** What the bindings throw. */
    HeedError: typeof import('./error.js').HeedError;
  }): Promise<import('./core.js').Core & { stackSave(): number; stackRestore(pointer: number): void }>;
}
