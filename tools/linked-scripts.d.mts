export function linkedScripts(folder: string, entry?: string): string[];
