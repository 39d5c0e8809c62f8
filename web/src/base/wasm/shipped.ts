/** The model that comes with the package, a folder packed into one file (io/packed.ts). */
import { packaged } from './packaged.js';

// Spelled out: bundlers look for exactly this form, and copy what it names. Not looked at before it is needed: some environments have no `import.meta.url`.
export const shippedModel = () =>
  packaged('model/model.safetensors', new URL('./model/model.safetensors', import.meta.url));
