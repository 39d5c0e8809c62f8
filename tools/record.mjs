// bench/record.json holds each release's sizes, the memory that training takes, and its speed as ratios to other libraries. Sizes
// are compared with those of the working tree, speeds only with recorded ones: a test that measured time would depend on the load
// of the machine.
//   `npm run record`          writes the entry of package.json's version, from dist/ and bench/RESULTS.md, and the documents' figures; refuses a released version
//   `npm run record check`    for tests: prints the sizes; the entry exists, no size is more than 3 % above it, no ratio fell without a reason, int8 is faster than fp32
//   `npm run record release`  for a release: sizes are also equal to the byte, and the changelog is complete
import { execFileSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { measureTrainingMemory } from '../bench/training/memory.mjs';
import { build } from './build.mjs';
import { PlainError, root, run, runMain, say } from './console.mjs';
import { measureSizes, printSizes } from './size.mjs';

const file = join(root, 'bench/record.json');
const read = (name) => fs.readFileSync(join(root, name), 'utf8');

const kGrowth = 0.03; // the largest relative growth of a size since it was recorded
const kSlower = 0.95; // of the previous ratio; a lower one needs a reason, the entry's `slower`

/**
 * Reads the tables of ratios in bench/RESULTS.md: { place: { 'heed fp32 (…) / onnxruntime-web fp32': { '1 x 16': 1.51, … } } }.
 * @param {string} markdown
 */
export function ratiosOf(markdown) {
  const places = {};
  for (const [place, section] of markdown
    .split(/^## /m)
    .slice(1)
    .map((text) => [text.split('\n', 1)[0].trim(), text])) {
    const lines = section.split('\n').map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
    const head = lines.findIndex(([first]) => first === 'times as fast');
    if (head < 0) continue;
    const rows = {};
    for (const [ours, peer, ...cells] of lines.slice(head + 2)) {
      if (!peer) break;
      const shapes = lines[head].slice(2);
      rows[`${ours} / ${peer}`] = Object.fromEntries(cells.map((cell, i) => [shapes[i], Number.parseFloat(cell)]));
    }
    places[place] = rows;
  }
  return places;
}

/** The ratios that fell from one entry to the next. A place is compared with the same one, or else with the first of the same browser or of Node in another version. */
export function slowdowns(before, after) {
  const found = [];
  const sameKind = (places, place) =>
    place in places ? place : Object.keys(places).find((other) => other.split(' ')[0] === place.split(' ')[0]);
  for (const [place, rows] of Object.entries(after.speed)) {
    const old = before.speed[sameKind(before.speed, place)] ?? {};
    for (const [pair, shapes] of Object.entries(rows)) {
      for (const [shape, ratio] of Object.entries(shapes)) {
        const was = old[pair]?.[shape];
        if (was && ratio < kSlower * was) found.push(`${place}: ${pair}, ${shape}: ${was} to ${ratio}`);
      }
    }
  }
  return found;
}

/** The shapes at which int8 was not faster than fp32, or was not measured, per place and build. */
export function slowInt8(speed) {
  const builds = ['relaxed-simd', 'simd128'];
  const shapes = ['1 x 16', '1 x 128', '8 x 128', '1 x 512'];
  return Object.entries(speed).flatMap(([place, rows]) =>
    builds.flatMap((build) => {
      const row = rows[`heed q8 (${build}) / heed fp32`] ?? {};
      return shapes
        .filter((shape) => !(row[shape] > 1))
        .map((shape) => `${place}: int8 (${build}), ${shape}: ${row[shape] ?? 'not measured'} times as fast as fp32`);
    }),
  );
}

function entry() {
  const { version, compiler } = JSON.parse(read('dist/wasm.json'));
  return { version, compiler, sizes: measureSizes(), speed: ratiosOf(read('bench/RESULTS.md')) };
}

/** Differences between the record and the current state, one line each. */
export function faults(record, now, { exact }) {
  const { [now.version]: recorded, ...others } = record;
  if (!recorded) return [`bench/record.json has no entry for ${now.version}`];
  const wrong = [];
  for (const [what, bytes] of Object.entries(now.sizes)) {
    const was = recorded.sizes[what];
    if (exact ? bytes !== was : !(bytes <= (1 + kGrowth) * was))
      wrong.push(`${what}: ${bytes} bytes; recorded: ${was}`);
  }
  wrong.push(...slowInt8(recorded.speed));
  const before = Object.values(others).at(-1);
  if (before && !recorded.slower)
    wrong.push(...slowdowns(before, recorded).map((line) => `slower without a reason: ${line}`));
  if (exact && JSON.stringify(recorded.speed) !== JSON.stringify(now.speed))
    wrong.push('bench/RESULTS.md has different ratios');
  if (exact && JSON.stringify(recorded.compiler) !== JSON.stringify(now.compiler)) {
    wrong.push(`compiler: ${JSON.stringify(now.compiler)}; recorded: ${JSON.stringify(recorded.compiler)}`);
  }
  return wrong;
}

/** What the changelog lacks for a release, one line each. */
export function changelogFaults(changelog, { version, compiler }) {
  const section = changelog.split(/^## /m).find((text) => text.startsWith(`${version} `));
  if (!section) return [`CHANGELOG.md has no "## ${version} - date"`];
  const wrong = [];
  if (!/^\S+ - \d{4}-\d\d-\d\d$/m.test(section.split('\n', 1)[0])) wrong.push(`CHANGELOG.md: ${version} has no date`);
  if (!section.includes(`Emscripten ${compiler.emscripten}`))
    wrong.push(`CHANGELOG.md: ${version} does not name its compiler, Emscripten ${compiler.emscripten}`);
  return wrong;
}

/**
 * What says that a version is released: its tag or, as a clone may lack tags, a newer section of the changelog. null if it
 * is not.
 */
export function releaseOf(version, { tags, changelog }) {
  if (tags.includes(`v${version}`)) return `the tag v${version}`;
  const sections = [...changelog.matchAll(/^## (\S+)/gm)].map(([, name]) => name);
  return sections.indexOf(version) > 0 ? `'## ${sections[0]}' above it in CHANGELOG.md` : null;
}

/** The tags of this clone; [] also outside a clone. */
function gitTags() {
  try {
    const options = { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] };
    return execFileSync('git', ['tag', '--list', 'v*'], options).split('\n').filter(Boolean);
  } catch {
    return [];
  }
}

/** Refuses to replace the record of a release. */
function requireUnreleased() {
  const { version } = JSON.parse(read('package.json'));
  const tags = gitTags();
  const by = releaseOf(version, { tags, changelog: read('CHANGELOG.md') });
  if (by)
    throw new PlainError(
      `${version} is released, as ${by} says, and bench/record.json keeps its entry. Set the next version in package.json first: npm version --no-git-tag-version <version>`,
    );
  if (tags.length === 0)
    say(`there are no tags here: CHANGELOG.md has nothing above ${version}, so it is not released`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runMain(async () => {
    const [command = 'write'] = process.argv.slice(2);
    if (!['write', 'check', 'release'].includes(command))
      throw new PlainError(`command: expected check or release, got '${command}'`);
    if (command === 'write') requireUnreleased();
    await build();
    const record = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, 'utf8')) : {};
    const now = entry();
    const { version, ...rest } = now;
    if (command === 'write') {
      const { slower } = record[version] ?? {};
      delete record[version]; // so that the entry moves to the end
      record[version] = { ...rest, memory: await measureTrainingMemory(), ...(slower && { slower }) };
      fs.writeFileSync(file, `${JSON.stringify(record, null, 2)}\n`);
      execFileSync(join(root, 'node_modules/.bin/biome'), ['format', '--write', file]);
      say(`recorded ${version} in bench/record.json`);
      return run([process.execPath, 'tools/figures.mjs', '--fix']);
    }
    printSizes();
    const exact = command === 'release';
    const wrong = faults(record, now, { exact });
    if (exact) wrong.push(...changelogFaults(read('CHANGELOG.md'), now));
    if (wrong.length > 0)
      throw new PlainError(`bench/record.json differs:\n  ${wrong.join('\n  ')}\n\`npm run record\` updates it`);
    say(`${version} matches bench/record.json`);
  });
}
