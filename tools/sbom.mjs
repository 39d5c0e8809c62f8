// `npm run sbom`: writes build/heed.cdx.json, the software bill of materials of the package in the format CycloneDX 1.5: all
// code of others that the tarball contains. `npm sbom` lists the packages of package-lock.json; all are development
// dependencies, so this keeps those whose code is in dist/, and adds what npm does not know.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from './build.mjs';
import { bundledFile } from './build-web.mjs';
import { PlainError, root, run, runMain, say } from './console.mjs';

const emscripten = join(root, '.toolchain/emscripten');

/** What `pattern` finds in a file. */
function found(file, pattern) {
  const match = fs.readFileSync(file, 'utf8').match(pattern);
  if (!match) throw new PlainError(`${file}: expected ${pattern}`);
  return match.slice(1);
}

/** A component with a reference of its own; `licence`: an SPDX expression. */
const component = ({ name, version, licence, ...others }) => ({
  'bom-ref': version ? `${name}@${version}` : name,
  type: 'library',
  name,
  ...(version && { version }),
  scope: 'required',
  licenses: [{ expression: licence }],
  ...others,
});

const website = (url) => [{ type: 'website', url }];

/** Eigen, whose version is in the headers that the build found. */
function eigen() {
  const [folder] = found(join(root, 'build/wasm-release/CMakeCache.txt'), /^EIGEN_INCLUDE_DIR:PATH=(.*)$/m);
  const macros = join(folder, 'Eigen/src/Core/util/Macros.h');
  const version = ['WORLD', 'MAJOR', 'MINOR'].map(
    (part) => found(macros, new RegExp(`^#define EIGEN_${part}_VERSION (\\d+)`, 'm'))[0],
  );
  return component({
    name: 'eigen',
    version: version.join('.'),
    licence: 'MPL-2.0',
    description: 'Compiled into the WebAssembly modules',
    purl: `pkg:generic/eigen@${version.join('.')}`,
    externalReferences: website('https://eigen.tuxfamily.org'),
  });
}

/** Emscripten's runtime, with the libraries that it links. */
function runtime() {
  const { compiler } = JSON.parse(fs.readFileSync(join(root, 'dist/wasm.json'), 'utf8'));
  const libraries = join(emscripten, 'system/lib');
  const [libcxx] = found(join(libraries, 'libcxx/include/__config'), /define _LIBCPP_VERSION (\d+)/);
  // 180100 is 18.1.0.
  const llvm = [Number(libcxx) / 10_000, (Number(libcxx) / 100) % 100, Number(libcxx) % 100].map(Math.floor).join('.');
  const ofLlvm = (name) => component({ name, version: llvm, licence: 'Apache-2.0 WITH LLVM-exception' });
  const musl = fs.readFileSync(join(libraries, 'libc/musl/VERSION'), 'utf8').trim();
  return component({
    name: 'emscripten',
    version: compiler.emscripten,
    licence: 'MIT OR NCSA',
    description: 'Runtime and embind, in the WebAssembly modules and their JavaScript',
    purl: `pkg:github/emscripten-core/emscripten@${compiler.emscripten}`,
    externalReferences: website('https://emscripten.org'),
    components: [component({ name: 'musl', version: musl, licence: 'MIT' }), ofLlvm('libc++'), ofLlvm('compiler-rt')],
  });
}

/** The bundled model. */
function model() {
  const name = 'sentence-transformers/all-MiniLM-L6-v2';
  return component({
    name,
    licence: 'Apache-2.0',
    type: 'machine-learning-model',
    description: 'dist/model, with a smaller vocabulary and weights in 3 bits',
    purl: `pkg:huggingface/${name}`,
  });
}

/**
 * Makes the bill of materials of dist/, which must be built.
 * @returns {Promise<object>} a CycloneDX document
 */
export async function makeSbom() {
  const { output } = await run(['npm', 'sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'], { quiet: true });
  const listed = JSON.parse(output);
  const { packages } = JSON.parse(fs.readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const bundled = JSON.parse(fs.readFileSync(bundledFile, 'utf8')).map((path) => {
    const name = path.split('node_modules/').at(-1);
    const reference = `${name}@${packages[path].version}`;
    const entry = listed.components.find((each) => each['bom-ref'] === reference);
    if (!entry) throw new PlainError(`npm sbom: expected ${reference}, whose code is in dist/`);
    const { properties, ...rest } = entry; // that it is a development dependency, which holds for the sources only
    return rest;
  });
  const components = [...bundled, eigen(), runtime(), model()];
  const { metadata, ...document } = listed;
  const { name } = packages[''];
  return {
    ...document,
    // npm takes the name from the folder.
    metadata: { ...metadata, lifecycles: [{ phase: 'build' }], component: { ...metadata.component, name } },
    components,
    dependencies: [
      { ref: metadata.component['bom-ref'], dependsOn: components.map((each) => each['bom-ref']) },
      ...components.map((each) => ({ ref: each['bom-ref'], dependsOn: dependenciesOf(each, components, listed) })),
    ],
  };
}

/** Those of a component's dependencies that are in dist/, too. */
function dependenciesOf({ 'bom-ref': reference }, components, listed) {
  const { dependsOn = [] } = listed.dependencies.find(({ ref }) => ref === reference) ?? {};
  return dependsOn.filter((each) => components.some((other) => other['bom-ref'] === each));
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href)
  await runMain(async () => {
    await build();
    const document = await makeSbom();
    fs.writeFileSync(join(root, 'build/heed.cdx.json'), `${JSON.stringify(document, null, 2)}\n`);
    say(`wrote build/heed.cdx.json: ${document.components.map(({ name }) => name).join(', ')}`);
  });
