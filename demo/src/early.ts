/**
 * Runs while main.tsx is downloaded: requests the library and the build of the WebAssembly module that it will choose, which it would request only afterwards. If the guess
 * is wrong, the module is downloaded as well, and nothing else changes. Not on the first page, which shows its sentence without the module: on a slow connection
 * the script would arrive later.
 */
import relaxedUrl from 'heed/heed-relaxed-simd.wasm?url';
import simdUrl from 'heed/heed-simd128.wasm?url';
import { relaxedSimd } from 'wasm-feature-detect';

const chosen = /[?&]build=(simd128|relaxed-simd)/.exec(location.hash)?.[1];

const needsModule = !/^(#(see|start)\b.*)?$/.test(location.hash);

if (needsModule) {
  void import('heed').catch(() => {}); // the page reports it
  void (chosen ? Promise.resolve(chosen === 'relaxed-simd') : relaxedSimd()).then((relaxed) => {
    const href = relaxed ? relaxedUrl : simdUrl;
    document.head.append(
      Object.assign(document.createElement('link'), { rel: 'preload', as: 'fetch', crossOrigin: 'anonymous', href }),
    );
  });
}
