export function filesBelow(folder: string): string[];
export function hashOf(files: string[]): string;
