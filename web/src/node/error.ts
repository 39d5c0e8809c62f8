import { HeedError, type HeedErrorCode } from '../index.js';

/** The error for an invalid value; INVALID_ARGUMENT unless `code` is given. */
export function invalid(
  argument: string,
  expected: string,
  got: string,
  code: HeedErrorCode = 'INVALID_ARGUMENT',
  cause?: unknown,
): HeedError {
  return new HeedError(code, `${argument}: expected ${expected}, got ${got}`, { cause });
}

export function invalidFile(part: string, expected: string, got: string, cause?: unknown): HeedError {
  return invalid(part, expected, got, 'INVALID_FILE', cause);
}
