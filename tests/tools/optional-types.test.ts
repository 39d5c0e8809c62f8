// Optional properties of the package's types also accept undefined, for users who compile with
// exactOptionalPropertyTypes and pass on options of their own.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const root = join(import.meta.dirname, '../../web/src');

const ANY = [ts.SyntaxKind.UndefinedKeyword, ts.SyntaxKind.UnknownKeyword, ts.SyntaxKind.AnyKeyword];

/** Whether a type is written with undefined. `never` marks a property that must be absent. */
const allowsUndefined = (type: ts.TypeNode): boolean =>
  ANY.includes(type.kind) ||
  type.kind === ts.SyntaxKind.NeverKeyword ||
  (ts.isUnionTypeNode(type) && type.types.some(allowsUndefined)) ||
  (ts.isParenthesizedTypeNode(type) && allowsUndefined(type.type));

/** The optional properties in a source whose types lack undefined. */
function lacking(code: string): string[] {
  const source = ts.createSourceFile('a.ts', code, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    const isOptional =
      (ts.isPropertySignature(node) && node.questionToken) ||
      (ts.isMappedTypeNode(node) && node.questionToken && node.questionToken.kind !== ts.SyntaxKind.MinusToken);
    if (isOptional && node.type && !allowsUndefined(node.type)) found.push(node.getText());
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

it('the rule finds what is planted', () => {
  const code = `
    interface A { a?: number; b?: number | undefined; c: string; d?: unknown; e?: () => undefined; f?: never }
    type B = { [K in 'a']?: number };
    type C = { [K in 'a']-?: number };`;
  expect(lacking(code)).toEqual(['a?: number;', 'e?: () => undefined;', "{ [K in 'a']?: number }"]);
});

it('optional properties accept undefined', () => {
  const names = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .map((name) => name.replaceAll('\\', '/'))
    .filter((name) => name.endsWith('.ts') && !name.startsWith('cli/'));
  expect(
    names.flatMap((name) => lacking(readFileSync(join(root, name), 'utf8')).map((text) => `${name}: ${text}`)),
  ).toEqual([]);
});
