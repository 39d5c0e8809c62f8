/** The model that comes with the package: a folder packed into one file (io/packed.ts). */
import { packaged } from './packaged.js';

// Bundlers look for exactly this expression and copy the file that it names. It is a function because some environments
// have no `import.meta.url`.
export const shippedModel = () =>
  packaged('model/model.safetensors', new URL('./model/model.safetensors', import.meta.url));
