import { readdirSync, readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';
import { makeSbom, type Sbom } from '../../tools/sbom.mjs';

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');
const thirdParty = read('THIRD_PARTY.md');
const words = (text: string) => text.replace(/[\s*]+/g, ' ');

let sbom: Sbom;
let all: Sbom['components'];

beforeAll(async () => {
  sbom = await makeSbom();
  all = sbom.components.flatMap((each) => [each, ...(each.components ?? [])]);
});

test('is a CycloneDX document about the package', () => {
  expect(sbom).toMatchObject({ bomFormat: 'CycloneDX', specVersion: '1.5', version: 1 });
  expect(sbom.serialNumber).toMatch(/^urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(Date.parse(sbom.metadata.timestamp)).toBeGreaterThan(0);
  const { version } = JSON.parse(read('package.json'));
  expect(sbom.metadata.component).toMatchObject({ name: 'heed', version, purl: `pkg:npm/heed@${version}` });
  const references = [sbom.metadata.component, ...all].map((each) => each['bom-ref']);
  expect(new Set(references).size).toBe(references.length);
  for (const { ref, dependsOn } of sbom.dependencies)
    for (const each of [ref, ...dependsOn]) expect(references).toContain(each);
  for (const each of all) {
    expect(each).toMatchObject({
      type: expect.stringMatching(/^(library|machine-learning-model)$/),
      scope: 'required',
    });
    expect(each.licenses, each.name).toHaveLength(1);
    if (each.purl) expect(each.purl).toMatch(/^pkg:(npm|generic|github|huggingface)\/[^\s]+$/);
  }
});

test('lists the code of others in dist/, with versions and digests, and nothing else', () => {
  const packages = sbom.components.filter(({ purl }) => purl?.startsWith('pkg:npm/'));
  const { devDependencies } = JSON.parse(read('package.json'));
  for (const { name, version, hashes, properties } of packages) {
    expect(devDependencies[name], name).toBeDefined();
    expect(version).toBe(JSON.parse(read(`node_modules/${name}/package.json`)).version);
    expect(hashes?.[0]).toMatchObject({ alg: 'SHA-512', content: expect.stringMatching(/^[0-9a-f]{128}$/) });
    expect(properties).toBeUndefined();
  }
  const names = packages.map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining(['pbf', 'minisearch', 'commander', '@huggingface/jinja']));
  expect(names).not.toContain('rolldown');
  const { compiler } = JSON.parse(read('dist/wasm.json'));
  const others = Object.fromEntries(all.map(({ name, version }) => [name, version]));
  expect(others).toMatchObject({
    eigen: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    emscripten: compiler.emscripten,
    musl: expect.stringMatching(/^\d+\.\d+\.\d+$/),
    'libc++': expect.stringMatching(/^\d+\.\d+\.\d+$/),
  });
});

test('THIRD_PARTY.md lists the same parts, with the texts and holders of their licences', () => {
  for (const { name } of all) expect(thirdParty.toLowerCase(), name).toContain(name.toLowerCase());
  for (const { name, purl, licenses } of sbom.components) {
    if (!purl?.startsWith('pkg:npm/')) continue;
    const [licence] = licenses as [{ license: { id: string } }];
    const folder = `node_modules/${name}`;
    const file = readdirSync(new URL(`../../${folder}`, import.meta.url)).find((each) => /^licen[cs]e/i.test(each));
    const text = read(`${folder}/${file}`);
    if (licence.license.id === 'Apache-2.0') continue; // LICENSE
    for (const [holder] of text.matchAll(/^Copyright .*\d{4}.*$/gm))
      expect(words(thirdParty), name).toContain(words(holder));
    const terms = words(text)
      .match(/(Permission is hereby granted|Redistribution and use).*/)![0]
      .trim();
    const plain = (given: string) => given.toLowerCase().replace(/[^a-z]+/g, '');
    expect(plain(thirdParty), name).toContain(plain(terms));
  }
});
