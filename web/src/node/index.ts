/** Files, texts and arrays in Node, for the command line and for runs over corpora. */
export { batches } from './batches.js';
export { embedTexts, type TextRole } from './embedding.js';
export { invalid, invalidFile } from './error.js';
export { namesIn, pieces, readRange, statusOf, unreadable } from './folders-and-files.js';
export {
  asRecord,
  type Encoding,
  encodingOf,
  endsInCr,
  FORMATS,
  type Format,
  formatOf,
  hasInnerCr,
  indexOfUnit,
  isBinary,
  type JsonRecord,
  LineSplitter,
  notText,
  type RawLine,
  recordOfLine,
  splitLines,
  textOfLine,
  unitOf,
} from './lines.js';
export { NPY_HEADER_BYTES, npyHeader, npyShape, npyType, npyTypeOf } from './npy.js';
export {
  makeFolderOf,
  publish,
  remove,
  requireWritable,
  uniqueSuffix,
  unwritable,
  writeAll,
  writeWhole,
  writing,
} from './write.js';
