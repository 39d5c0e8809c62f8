// What is done to the scripts of dist/ after minification.
import { readFileSync, writeFileSync } from 'node:fs';
import { parseAst } from 'rolldown/parseAst';

/** Node prints the line of the script that threw an error: it should not be a page long. */
const kLineLength = 400;

/** Lists before whose entries a line break changes nothing: statements, and what follows a bracket or a comma. */
const kLists = ['body', 'consequent', 'cases', 'declarations', 'properties', 'elements', 'arguments', 'specifiers'];

/** Collects the offsets at which `node` and the nodes inside it may be broken into lines. */
function collectPlaces(node, places) {
  if (typeof node !== 'object' || node === null) return;
  for (const [name, value] of Object.entries(node)) {
    // Not before the first expression of a sequence, which may follow `return`.
    const list = kLists.includes(name)
      ? value
      : node.type === 'SequenceExpression' && name === 'expressions'
        ? value.slice(1)
        : null;
    if (Array.isArray(list)) for (const entry of list) if (typeof entry?.start === 'number') places.add(entry.start);
    collectPlaces(value, places);
  }
}

/** Line breaks that make the lines of a script as long as allowed, where its syntax permits. */
function lineBreaks(code) {
  const places = new Set();
  collectPlaces(parseAst(code), places);
  const sorted = [...places].sort((a, b) => a - b);
  const edits = [];
  let line = 0;
  for (const [i, start] of sorted.entries()) {
    line = Math.max(line, code.lastIndexOf('\n', start - 1) + 1);
    if ((sorted[i + 1] ?? code.length) - line <= kLineLength || start === line) continue;
    edits.push({ start, end: start, text: '\n' });
    line = start;
  }
  return edits;
}

/**
 * Escapes of characters beyond ASCII: a page without a declared charset reads classic scripts, into which bundlers may copy them, as windows-1252. They only occur in strings,
 * templates and regular expressions.
 */
function escapes(code) {
  const escaped = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const found = code.matchAll(/[^\0-\x7f]/g); // UTF-16 units: pairs of escapes are one character, also in regular expressions
  return [...found].map(({ index, 0: char }) => ({ start: index, end: index + 1, text: escaped(char) }));
}

/** Quotes around the type of workers, of which minifiers make templates: Parcel knows `{ type: 'module' }` by a string only. */
function quotes(code) {
  return [...code.matchAll(/\btype:`module`/g)].map(({ index, 0: text }) => ({
    start: index,
    end: index + text.length,
    text: 'type:"module"',
  }));
}

const kFacade = /^export\{([^}]*)\}from["'`](\.\/[^"'`]+)["'`];\s*$/;

/** If a script only passes on what one other script exports: that script, and the names of each export there and here. */
export function facadeOf(code) {
  const [, list, script] = kFacade.exec(code) ?? [];
  if (!script) return null;
  return { script, exports: list.split(',').map((pair) => pair.split(' as ')) };
}

/** Imports on demand of facades, which would be one more request each: the script itself, and its exports by the facade's names. */
function shortcuts(code, facades) {
  return [...code.matchAll(/\bimport\(["'`](\.\/[^"'`]+)["'`]\)/g)].flatMap(({ index, 0: text, 1: name }) => {
    const facade = facades.get(name);
    if (!facade) return [];
    const renamed = facade.exports.map(([own, name = own]) => `${name}:e.${own}`);
    return [{ start: index, end: index + text.length, text: `import("${facade.script}").then(e=>({${renamed}}))` }];
  });
}

/** Applies edits, which ascend, to a script. */
function edited(code, edits) {
  let text = '';
  let at = 0;
  for (const edit of edits) {
    text += code.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  return text + code.slice(at);
}

/** Finishes a minified script: escapes what is not ASCII, imports no facades on demand, and breaks it into lines. */
export function finished(code, facades = new Map()) {
  const edits = [...escapes(code), ...quotes(code), ...shortcuts(code, facades)];
  const ascii = edited(
    code,
    edits.sort((a, b) => a.start - b.start),
  );
  return edited(ascii, lineBreaks(ascii));
}

/** Finishes a script file. `facades`: by the names that scripts import. */
export function finishFile(path, facades = new Map()) {
  writeFileSync(path, `${finished(readFileSync(path, 'utf8'), facades).trimEnd()}\n`);
}
