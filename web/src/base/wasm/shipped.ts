/** The model that comes with the package: a folder packed into one file (io/packed.ts). */
import { beside, packaged } from './packaged.js';

// Bundlers look for exactly this expression and copy the file that it names. It is a function because some environments
// have no `import.meta.url`.
export const shippedModel = () =>
  beside(
    'source',
    () => packaged('model/model.safetensors', new URL('./model/model.safetensors', import.meta.url)),
    "Give the model's URL, or its files as { 'config.json': bytes, ... }",
  );
