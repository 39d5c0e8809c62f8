/// <reference types="vite/client" />

declare module 'virtual:sizes' {
  interface Size {
    raw: number;
    brotli: number;
  }
  const sizes: { simd128: Size; 'relaxed-simd': Size; face: Size };
  export default sizes;
}
