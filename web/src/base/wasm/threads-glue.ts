/** Emscripten's code for builds with threads, which workers import on demand. */
export { default as create } from 'heed-glue/threads';
