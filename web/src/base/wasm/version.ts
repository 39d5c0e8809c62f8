import { version as packageVersion } from '../../../../package.json';

/** heed's version, from package.json. */
export const version: string = packageVersion;
