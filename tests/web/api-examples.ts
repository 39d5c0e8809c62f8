/** The public API, read by the TypeScript compiler: exports, and the examples in their documentation. */
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const root = fileURLToPath(new URL('../../', import.meta.url));
const adapters = ['ai-sdk', 'langchain', 'chroma', 'lancedb'];
const named = adapters.map((name) => `adapters/${name}`);
const entries = [
  'index',
  'train/index',
  'corpus',
  'draw/index',
  'lens/index',
  'util/index',
  'evaluation/index',
  ...named,
];

/** Interfaces of objects whose methods users call. Other interfaces are types of options and of results, or for callers to implement. */
const calledInterfaces = new Set(
  'Checkpoints Losses Masks Operations Optim PretrainedModel Schedules Trainable'.split(' '),
);

/** A function, a class or a method. */
export interface Item {
  /** For example 'train/index: Loss.item'. */
  name: string;
  examples: string[];
  /** Examples of the classes that declare or inherit it, which may demonstrate it, too. */
  around: string[];
}

const { options } = ts.parseJsonConfigFileContent(
  ts.readConfigFile(`${root}tsconfig.build.json`, ts.sys.readFile).config,
  ts.sys,
  root,
);
let program: ts.Program;

/** The compiler's errors in examples that import `names` from an entry of the package. */
export function typeErrors(entry: string, names: string[], examples: string[]): string[] {
  const files = new Map(
    examples.map((code, n) => [
      `${root}web/src/example-${n}.ts`,
      `import { ${names.join(', ')} } from './${entry}.js';\n${code}\nexport {};`,
    ]),
  );
  const checked = { ...options, noUnusedLocals: false };
  const host = ts.createCompilerHost(checked);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.getSourceFile = (path, language) =>
    files.has(path)
      ? ts.createSourceFile(path, files.get(path)!, language)
      : (program?.getSourceFile(path) ?? getSourceFile(path, language));
  const own = ts.createProgram([...files.keys()], checked, host);
  return [...files.keys()].flatMap((path) => {
    const source = own.getSourceFile(path);
    const found = [...own.getSyntacticDiagnostics(source), ...own.getSemanticDiagnostics(source)];
    return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, ' '));
  });
}

function makeProgram(): ts.TypeChecker {
  program ??= ts.createProgram(
    entries.map((entry) => `${root}web/src/${entry}.ts`),
    options,
  );
  return program.getTypeChecker();
}

/** The exports of an entry, by name. */
function exportsOf(checker: ts.TypeChecker, entry: string): [name: string, symbol: ts.Symbol][] {
  const source = program.getSourceFile(`${root}web/src/${entry}.ts`)!;
  return checker
    .getExportsOfModule(checker.getSymbolAtLocation(source)!)
    .map((exported) => [
      exported.name,
      exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported,
    ]);
}

/** Exported names that refer to different types or classes in different entries. */
export function ambiguousTypes(): string[] {
  const checker = makeProgram();
  const kinds = ts.SymbolFlags.Interface | ts.SymbolFlags.TypeAlias | ts.SymbolFlags.Class;
  const byName = new Map<string, Set<ts.Symbol>>();
  for (const [name, symbol] of entries.flatMap((entry) => exportsOf(checker, entry)))
    if (symbol.flags & kinds) byName.set(name, (byName.get(name) ?? new Set()).add(symbol));
  return [...byName].filter(([, symbols]) => symbols.size > 1).map(([name]) => name);
}

/** Everything that users call, from all entries of the package. */
export function publicItems(): Item[] {
  const checker = makeProgram();
  const examplesOf = (symbol: ts.Symbol): string[] =>
    symbol
      .getJsDocTags(checker)
      .filter(({ name }) => name === 'example')
      .map(({ text }) => ts.displayPartsToString(text));
  const isInternal = (symbol: ts.Symbol) => symbol.getJsDocTags(checker).some(({ name }) => name === 'internal');
  const isOurs = (symbol: ts.Symbol) => symbol.declarations?.[0]?.getSourceFile().fileName.includes('/web/src/');
  const isMethod = (symbol: ts.Symbol) =>
    (symbol.flags & ts.SymbolFlags.Method) !== 0 && isOurs(symbol) && /^[a-zA-Z]/.test(symbol.name);
  const items: Item[] = [];
  const seen = new Set<ts.Symbol>();
  const add = (name: string, symbol: ts.Symbol, around: string[] = []) => {
    if (isInternal(symbol) || seen.has(symbol)) return;
    seen.add(symbol);
    items.push({ name, examples: examplesOf(symbol), around });
  };
  const basesOf = (type: ts.Type): ts.Type[] => {
    // The bases of a generic type such as Layer<RawLinear> are those of Layer.
    const bases = ((type as ts.TypeReference).target ?? type).getBaseTypes() ?? [];
    return bases.flatMap((base) => [base, ...basesOf(base)]);
  };

  for (const entry of entries) {
    for (const [exported, symbol] of exportsOf(checker, entry)) {
      const name = `${entry}: ${exported}`;
      if (symbol.flags & (ts.SymbolFlags.Function | ts.SymbolFlags.Variable | ts.SymbolFlags.Class)) add(name, symbol);
      const isClass = (symbol.flags & ts.SymbolFlags.Class) !== 0;
      if (!isClass && !calledInterfaces.has(symbol.name)) continue;
      const type = checker.getDeclaredTypeOfSymbol(symbol);
      const around = [type, ...basesOf(type)].flatMap(({ symbol }) => (symbol ? examplesOf(symbol) : []));
      const statics = isClass ? checker.getPropertiesOfType(checker.getTypeOfSymbol(symbol)) : [];
      for (const member of [...checker.getPropertiesOfType(type), ...statics])
        if (isMethod(member)) add(`${name}.${member.name}`, member, around);
    }
  }
  return items;
}

/** The options of a public function, class or method: names of properties of its last parameter. */
export interface Optioned {
  /** For example 'index: TextIndex.search'. */
  name: string;
  options: string[];
}

/** Every public function, class and method with an object of options as its last parameter. */
export function publicOptions(): Optioned[] {
  const checker = makeProgram();
  const found = new Map<string, Optioned>();
  const seen = new Set<ts.Symbol>();
  const isOurs = (symbol: ts.Symbol) => symbol.declarations?.[0]?.getSourceFile().fileName.includes('/web/src/');
  const isInternal = (symbol: ts.Symbol) => symbol.getJsDocTags(checker).some(({ name }) => name === 'internal');
  const optionsOf = (signature: ts.Signature): string[] => {
    const last = signature.getParameters().at(-1);
    if (
      !last ||
      (!/^(options|given|call|settings)$/.test(last.name) &&
        !/(Options|Config)$/.test(checker.getTypeOfSymbol(last).symbol?.name ?? ''))
    )
      return [];
    const type = checker.getNonNullableType(checker.getTypeOfSymbol(last));
    const parts = type.isUnion() ? type.types : [type];
    return parts.flatMap((part) =>
      checker
        .getPropertiesOfType(part)
        .filter((property) => isOurs(property) && !isInternal(property))
        .map(({ name }) => name),
    );
  };
  const add = (name: string, signatures: readonly ts.Signature[]) => {
    const options = [...new Set(signatures.flatMap(optionsOf))];
    if (options.length > 0) found.set(name, { name, options });
  };
  const visit = (name: string, symbol: ts.Symbol, type: ts.Type) => {
    if (isInternal(symbol) || seen.has(symbol)) return;
    seen.add(symbol);
    add(name, type.getCallSignatures());
    if (symbol.flags & ts.SymbolFlags.Class) add(`new ${name}`, type.getConstructSignatures());
  };
  for (const entry of entries)
    for (const [exported, symbol] of exportsOf(checker, entry)) {
      const name = `${entry}: ${exported}`;
      if (symbol.flags & (ts.SymbolFlags.Function | ts.SymbolFlags.Variable | ts.SymbolFlags.Class))
        visit(name, symbol, checker.getTypeOfSymbol(symbol));
      const isClass = (symbol.flags & ts.SymbolFlags.Class) !== 0;
      if (!isClass && !calledInterfaces.has(symbol.name)) continue;
      const type = checker.getDeclaredTypeOfSymbol(symbol);
      const statics = isClass ? checker.getPropertiesOfType(checker.getTypeOfSymbol(symbol)) : [];
      for (const member of [...checker.getPropertiesOfType(type), ...statics])
        if (isOurs(member) && /^[a-zA-Z]/.test(member.name))
          visit(`${name}.${member.name}`, member, checker.getTypeOfSymbol(member));
    }
  return [...found.values()];
}
