/// <reference types="vite/client" />

declare module 'virtual:sizes' {
  /** Bytes after brotli. */
  const sizes: { simd128: number; 'relaxed-simd': number; scripts: number };
  export default sizes;
}
