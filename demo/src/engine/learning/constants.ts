/** What the first page knows of “Watch it learn”, which reads the settings from the link. */

export const taskNames = ['reverse', 'copy', 'sort', 'repeated'] as const;
export type TaskName = (typeof taskNames)[number];

/** Training ends here by itself, so that a forgotten tab does not compute for ever. */
export const lastStep = 3000;
