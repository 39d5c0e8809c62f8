/** The model that comes with the package, a folder packed into one file (models/packed.ts). */

// Spelled out: bundlers look for exactly this form, and copy what it names.
export const shippedModel = new URL('./model/model.safetensors', import.meta.url);
