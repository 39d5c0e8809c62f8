// How the WebAssembly modules were built, read from the build's own files. Shipped beside them as wasm.json.
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { root } from './console.mjs';
import { filesBelow, hashOf } from './files.mjs';

const isFlag = (word) => /^-(?!o$|c$|I|isystem)/.test(word);

function flagsOf(name, folder) {
  const commands = JSON.parse(fs.readFileSync(join(folder, 'compile_commands.json'), 'utf8'));
  const objects = `heed-fast-${name.replace(/^(train|threads)-/, '')}.dir`; // the matrix products
  const compile = commands.find(({ output, command }) => (output ?? command).includes(objects)).command;
  const ninja = fs.readFileSync(join(folder, 'build.ninja'), 'utf8');
  const link = ninja.match(new RegExp(`build ${name}/heed\\.mjs:[\\s\\S]*?LINK_FLAGS = (.*)`))[1];
  return { compile: compile.split(/\s+/).filter(isFlag), link: link.split(/\s+/).filter(isFlag) };
}

/** Compiler, flags and hashes of the `modules`, pairs of a name and the bytes that are shipped, which were built in `folder`. */
export function provenance(modules, folder) {
  const emscripten = fs.readFileSync(join(root, '.toolchain/emscripten/emscripten-version.txt'), 'utf8');
  const compiler = fs
    .readdirSync(join(folder, 'CMakeFiles'), { recursive: true })
    .find((file) => /CMakeCXXCompiler\.cmake$/.test(file));
  const clang = fs
    .readFileSync(join(folder, 'CMakeFiles', compiler), 'utf8')
    .match(/CMAKE_CXX_COMPILER_VERSION "(.*?)"/)[1];
  const sources = [...filesBelow(join(root, 'cpp')), join(root, 'CMakeLists.txt'), join(root, 'cmake/wasm.cmake')];
  const described = Object.fromEntries(
    modules.map(([name, bytes]) => {
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      return [`heed-${name}.wasm`, { bytes: bytes.length, sha256, flags: flagsOf(name, folder) }];
    }),
  );
  return {
    version: JSON.parse(fs.readFileSync(join(root, 'package.json'), 'utf8')).version,
    compiler: { emscripten: emscripten.match(/\d+\.\d+\.\d+/)[0], clang },
    // sha256 over the names and contents of cpp/, CMakeLists.txt and cmake/wasm.cmake
    sources: hashOf(sources),
    modules: described,
  };
}
