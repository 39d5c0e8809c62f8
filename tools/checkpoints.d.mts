export interface Archive {
  /** The group of a Maven artifact; without one, a package of PyPI. */
  group?: string;
  name: string;
  version: string;
  /** The name of the archive's file. */
  file: string;
  sha256: string;
}

/** The folder of the checkpoints. */
export declare const checkpointsFolder: string;

/** The published checkpoints, by the names of their folders. */
export declare const CHECKPOINTS: Record<string, { archives: Archive[] }>;

/** Fetches an archive, if it is not there complete. Returns its path. */
export declare function fetchArchive(
  archive: Archive,
  folder: string,
  fetch?: (archive: Archive, folder: string) => Promise<void>,
): Promise<string>;

/** Makes sure that a checkpoint is there. Returns its folder. */
export declare function ensureCheckpoint(name: string): Promise<string>;
