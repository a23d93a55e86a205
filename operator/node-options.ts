/**
 * The options of Node for an operator in a cluster. With thousands of watch events a second V8 extends its
 * young generation to 128 MiB and returns nothing of it; with semi-spaces of 4 MiB it stays below 12 MiB.
 */
export const nodeOptions: readonly string[] = ['--max-semi-space-size=4']
