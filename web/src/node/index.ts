/** Files, texts and arrays in Node, for the command line and for runs over corpora. */
export { invalid, invalidFile } from '../base/error.js';
export { batches } from './batches.js';
export { namesIn, pieces, readRange, statusOf, unreadable } from './folders-and-files.js';
export {
  decodeLine,
  type Encoding,
  encodingOf,
  endsInCr,
  FORMATS,
  type Format,
  formatOf,
  hasInnerCr,
  indexOfUnit,
  isBinary,
  LineSplitter,
  notText,
  type RawLine,
  splitLines,
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
