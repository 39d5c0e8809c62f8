/// <reference types="vite/client" />

declare module 'virtual:sizes' {
  /** Bytes after brotli; those of the model's files as they are. */
  const sizes: { simd128: number; 'relaxed-simd': number; scripts: number; model: number };
  export default sizes;
}
