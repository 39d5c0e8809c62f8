// The number of types that a reader of the API meets. One that nobody needs by name stays inside.
import { join } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const entry = join(import.meta.dirname, '../../web/src/index.ts');

it('heed exports at most 160 types', () => {
  const options = {
    noLib: true,
    types: [],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  const program = ts.createProgram([entry], options);
  const checker = program.getTypeChecker();
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)!)!);
  const types = exported
    .map((each) => (each.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(each) : each))
    .filter(({ flags }) => flags & ts.SymbolFlags.Type);
  expect(types.length).toBeGreaterThan(100);
  expect(types.length).toBeLessThanOrEqual(160);
});
