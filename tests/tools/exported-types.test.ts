// The number of types that a reader of the API meets. One that nobody needs by name stays inside.
import { join } from 'node:path';
import ts from 'typescript';
import { expect, it } from 'vitest';

const entry = join(import.meta.dirname, '../../web/src/index.ts');

it('heed exports at most 107 types besides those of layers', () => {
  const options = {
    noLib: true,
    types: [],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  const program = ts.createProgram([entry], options);
  const checker = program.getTypeChecker();
  const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(entry)!)!);
  const isOfLayer = (each: ts.Symbol) => each.declarations?.[0]?.getSourceFile().fileName.includes('/layers/');
  const types = exported
    .map((each) => (each.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(each) : each))
    .filter((each) => each.flags & ts.SymbolFlags.Type && !isOfLayer(each));
  expect(types.length).toBeGreaterThan(50);
  expect(types.length).toBeLessThanOrEqual(107);
});
