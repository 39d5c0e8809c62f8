/** Weights in ONNX files. A chunk that is loaded when it is used. */
export { converted } from './convert.js';
export { readOnnx } from './read.js';
