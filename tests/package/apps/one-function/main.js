import { semanticSearch } from 'heed';

globalThis.found = semanticSearch([[1, 0]], [[0, 1], [2, 0]]); // biome-ignore format: a matrix per argument
