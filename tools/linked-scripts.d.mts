export function linkedScripts(folder: string, entry?: string): string[];
export function modelScripts(folder: string, entry?: string): string[];
