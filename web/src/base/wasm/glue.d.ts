/** The JavaScript that Emscripten generates with the WebAssembly modules. The build resolves the paths. */
declare module 'heed-glue/inference' {
  const createModule: import('./module.js').CreateModule;
  export default createModule;
}

declare module 'heed-glue/threads' {
  const createModule: import('./module.js').CreateModule;
  export default createModule;
}

declare module 'heed-glue/training' {
  const createModule: import('./module.js').CreateModule;
  export default createModule;
}
