/**
 * The options of Node with which a process of the broker is to be started. By itself V8 lets the memory for new
 * objects grow, and what lives through it is given back late: 200 short requests a second bring the resident memory
 * to 316 MB. With halves of 16 MiB it is 238. Smaller ones are worse again: what is only just in use is then taken
 * for old, and is found to be garbage by collections that hold up messages.
 */
export const nodeOptions: readonly string[] = ['--max-semi-space-size=16']
