// What is done to the scripts of dist/ after minification.
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
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

const kComment = /\/\/# sourceMappingURL=.*\s*$/;
const kFacade = /^export\{([^}]*)\}from["'`](\.\/[^"'`]+)["'`];\s*$/;

/** If a script only passes on what one other script exports: that script, and the names of each export there and here. */
export function facadeOf(code) {
  const [, list, script] = kFacade.exec(code.replace(kComment, '')) ?? [];
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

/** Where a line and column of a script are after these edits, as a function to be called with ascending positions. */
function mover(code, edits) {
  const starts = [0];
  for (let at = code.indexOf('\n'); at >= 0; at = code.indexOf('\n', at + 1)) starts.push(at + 1);
  let next = 0;
  let added = 0; // lines
  let line = -1;
  let shift = 0; // of columns in the current line
  return (oldLine, column) => {
    if (oldLine !== line) [line, shift] = [oldLine, 0];
    const offset = starts[oldLine] + column;
    for (; next < edits.length && edits[next].start <= offset; next++) {
      const { start, end, text } = edits[next];
      if (start < starts[oldLine]) {
        if (text === '\n') added++;
        continue;
      }
      if (text === '\n') {
        added++;
        shift = starts[oldLine] - start;
      } else if (end <= offset) shift += text.length - (end - start);
      else break;
    }
    return [oldLine + added, column + shift];
  };
}

const kDigits = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

/** The numbers of a segment of a source map, in base 64 with variable lengths. */
function decode(segment) {
  const numbers = [];
  let value = 0;
  let shift = 0;
  for (const char of segment) {
    const digit = kDigits.indexOf(char);
    value += (digit & 31) * 2 ** shift;
    shift += 5;
    if (digit & 32) continue;
    numbers.push(value % 2 ? -(value - 1) / 2 : value / 2);
    [value, shift] = [0, 0];
  }
  return numbers;
}

function encode(number) {
  let rest = number < 0 ? -2 * number + 1 : 2 * number;
  let text = '';
  do {
    const digit = rest % 32;
    rest = Math.floor(rest / 32);
    text += kDigits[rest > 0 ? digit + 32 : digit];
  } while (rest > 0);
  return text;
}

/** The mappings of a source map after `edits` of the script. Only generated columns change; the other numbers are differences that stay. */
function moveMappings(mappings, code, edits) {
  const move = mover(code, edits);
  const lines = [];
  mappings.split(';').forEach((segments, oldLine) => {
    let column = 0;
    for (const segment of segments.split(',').filter(Boolean)) {
      const [by, ...rest] = decode(segment);
      column += by;
      const [line, moved] = move(oldLine, column);
      lines[line] ??= { column: 0, segments: [] };
      // Without the index of a name: names of variables would be a fifth of the map.
      lines[line].segments.push([moved - lines[line].column, ...rest.slice(0, 3)].map(encode).join(''));
      lines[line].column = moved;
    }
  });
  return Array.from(lines, (line) => line?.segments.join(',') ?? '').join(';');
}

/** Applies edits to a script and its source map, if it has one. */
function edited({ code, map }, edits) {
  let text = '';
  let at = 0;
  for (const edit of edits) {
    text += code.slice(at, edit.start) + edit.text;
    at = edit.end;
  }
  text += code.slice(at);
  return { code: text, map: map && { ...map, mappings: moveMappings(map.mappings, code, edits) } };
}

/** Finishes a minified script and its source map: escapes what is not ASCII, imports no facades on demand, and breaks it into lines. */
export function finished(script, facades = new Map()) {
  const edits = [...escapes(script.code), ...quotes(script.code), ...shortcuts(script.code, facades)];
  const ascii = edited(
    script,
    edits.sort((a, b) => a.start - b.start),
  );
  return edited(ascii, lineBreaks(ascii.code));
}

/** A script of at most this length has no source map: an error in it needs none. */
const kSmall = 1500;

/** A source map without the text of the sources, which would be a seventh of the package. Tools that miss it would look for the files. */
function withoutSources(map) {
  return { ...map, names: [], sourcesContent: map.sources.map(() => '// not included') };
}

/** Finishes a script file. `facades`: by the names that scripts import. */
export function finishFile(path, facades = new Map()) {
  const text = readFileSync(path, 'utf8');
  const [comment = ''] = kComment.exec(text) ?? [];
  const map = comment && JSON.parse(readFileSync(`${path}.map`, 'utf8'));
  const { code, map: moved } = finished({ code: text.replace(kComment, ''), map }, facades);
  const keepsMap = moved && code.length > kSmall;
  writeFileSync(path, `${code.trimEnd()}\n${keepsMap ? comment : ''}`);
  if (keepsMap) writeFileSync(`${path}.map`, JSON.stringify(withoutSources(moved)));
  else rmSync(`${path}.map`, { force: true });
}

/** Appends code to a finished script file. */
export function appendTo(path, more) {
  const text = readFileSync(path, 'utf8');
  const [comment = ''] = kComment.exec(text) ?? [];
  writeFileSync(path, `${text.slice(0, text.length - comment.length)}${more}${comment}`);
}
