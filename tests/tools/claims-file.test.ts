/** The loader of chapter 14 of the course, on files in the formats in which freMTPL2freq is published. */
import { readFileSync } from 'node:fs';
import { beforeAll, expect, test } from 'vitest';

interface Policy {
  [column: string]: string | number;
}

let parse: (text: string) => Policy[];
let draw: (policies: Policy[], count: number) => Policy[];

beforeAll(async () => {
  const chapter = readFileSync(new URL('../../docs/course/14-claims.md', import.meta.url), 'utf8');
  const blocks = [...chapter.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code]) => code!);
  const before = (name: string, end: string) => blocks.find((code) => code.includes(name))!.split(end)[0]!;
  const parts = [
    before('const uniform', 'const pick').replace(/^.*?(?=let state)/s, ''),
    before('const columns', 'function line'),
    before('function parse', 'const policies'),
    before('function draw', '\0'),
  ];
  const code = `${parts.join('')}\nexport { draw, parse };`;
  ({ parse, draw } = await import(`data:text/javascript,${encodeURIComponent(code)}`));
});

// The first rows of the data, and one with more claims and more exposure than the data can have. Regions have names in
// CASdatasets and the numbers of INSEE at OpenML.
const rows = [
  {
    IDpol: 1,
    ClaimNb: 1,
    Exposure: 0.1,
    VehPower: 5,
    VehAge: 0,
    DrivAge: 55,
    BonusMalus: 50,
    VehBrand: 'B12',
    VehGas: 'Regular',
    Area: 'D',
    Density: 1217,
    Region: 'R82',
  },
  {
    IDpol: 5,
    ClaimNb: 1,
    Exposure: 0.75,
    VehPower: 6,
    VehAge: 2,
    DrivAge: 52,
    BonusMalus: 50,
    VehBrand: 'B12',
    VehGas: 'Diesel',
    Area: 'B',
    Density: 54,
    Region: 'R22',
  },
  {
    IDpol: 100000,
    ClaimNb: 16,
    Exposure: 2.01,
    VehPower: 4,
    VehAge: 12,
    DrivAge: 51,
    BonusMalus: 100,
    VehBrand: 'B1',
    VehGas: 'Regular',
    Area: 'E',
    Density: 3317,
    Region: 'R93',
  },
];
const names: Record<string, string> = { R82: 'Rhone-Alpes', R22: 'Picardie', R93: "Provence-Alpes-Cotes-D'Azur" };
const read = rows.map(({ IDpol, ClaimNb, Exposure, ...others }) => ({
  ...others,
  ClaimNb: Math.min(4, ClaimNb),
  Exposure: Math.min(1, Exposure),
}));
const order = 'IDpol,ClaimNb,Exposure,Area,VehPower,VehAge,DrivAge,BonusMalus,VehBrand,VehGas,Density,Region'.split(
  ',',
);
const lines = (columns: string[], cell: (value: string | number, column: string) => string) =>
  rows.map((row) => columns.map((column) => cell(row[column as keyof typeof row], column)).join(','));

/** R's write.csv: texts and names in double quotes, round numbers with exponents, in the order of CASdatasets. */
function fromR(end: string): string {
  const columns = Object.keys(rows[0]!);
  const cell = (value: string | number) =>
    typeof value === 'string' ? `"${names[value] ?? value}"` : value === 100000 ? '1e+05' : `${value}`;
  return [columns.map((name) => `"${name}"`).join(','), ...lines(columns, cell), ''].join(end);
}

/** OpenML's cells: categories in single quotes apart from VehGas, whole numbers with or without a decimal. */
const openMl = (decimals: boolean) => (value: string | number, column: string) =>
  typeof value === 'number'
    ? decimals && Number.isInteger(value)
      ? `${value}.0`
      : `${value}`
    : column === 'VehGas'
      ? value
      : `'${value}'`;

const arff = (cell: (value: string | number, column: string) => string, end = '\n') =>
  [
    '% French motor third-party liability',
    '@RELATION freMTPL2freq',
    '',
    ...order.map(
      (name) =>
        `@ATTRIBUTE ${name} ${/^(Area|VehBrand|Region)$/.test(name) ? "{'A','B'}" : name === 'VehGas' ? 'STRING' : 'REAL'}`,
    ),
    '',
    '@DATA',
    ...lines(order, cell),
    '',
  ].join(end);

test.each([
  ['R, Unix', fromR('\n'), true],
  ['R, Windows', fromR('\r\n'), true],
  ['OpenML, CSV', [order.join(','), ...lines(order, openMl(false))].join('\n'), false],
  [
    'OpenML, CSV with quoted names',
    [order.map((name) => `"${name}"`).join(','), ...lines(order, openMl(true))].join('\n'),
    false,
  ],
  ['OpenML, ARFF', arff(openMl(true)), false],
  [
    'OpenML, ARFF in lower case, with quoted names',
    arff(openMl(false), '\r\n')
      .replace(/@[A-Z]+ ?/g, (word) => word.toLowerCase())
      .replace(/(@attribute )(\w+)/g, "$1'$2'"),
    false,
  ],
])('%s', (_, text, isNamed) => {
  const expected = read.map((row) => ({ ...row, Region: isNamed ? names[row.Region]! : row.Region }));
  const found = parse(text);
  expect(found).toHaveLength(rows.length);
  expect(found.map(({ IDpol, ...others }) => others)).toEqual(expected);
  expect(found.map(({ IDpol }) => Number(IDpol))).toEqual(rows.map(({ IDpol }) => IDpol));
});

test('another file of the collection is rejected by the names of its columns', () => {
  expect(() => parse('"PolicyID","ClaimNb","Exposure","Power"\n"1",0,0.09,"g"\n')).toThrow(
    'freMTPL2freq: the file lacks the columns IDpol, Area, VehPower',
  );
});

test('a draw has different policies', () => {
  const drawn = draw(
    Array.from({ length: 100 }, (_, i) => ({ IDpol: i })),
    60,
  );
  expect(new Set(drawn.map(({ IDpol }) => IDpol)).size).toBe(60);
  expect(drawn.map(({ IDpol }) => IDpol)).not.toEqual(Array.from({ length: 60 }, (_, i) => i));
});
