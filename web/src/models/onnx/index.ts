/** Weights in ONNX files. A chunk that is loaded when it is used. */
export { readOnnx } from './read.js';
