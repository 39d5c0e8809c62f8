export function chapters(): { name: string; text: string }[];
export function cellsOf(text: string): { type: 'text' | 'code'; source: string }[];
export function jupyter(text: string): string;
export function observable(text: string): string;
export function page(): Promise<string>;
