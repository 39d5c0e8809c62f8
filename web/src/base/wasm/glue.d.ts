/** The JavaScript that Emscripten generates with the WebAssembly modules. The build resolves the paths. */
declare module 'heed-glue/*' {
  const createModule: import('./module.js').CreateModule;
  export default createModule;
}
