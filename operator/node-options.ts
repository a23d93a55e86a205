/**
 * The options of Node for an operator in a cluster.
 *
 * - With thousands of watch events a second V8 extends its young generation to 128 MiB and returns nothing of
 *   it; with semi-spaces of 4 MiB it stays below 12 MiB.
 * - The old generation may grow to twice its size after the last collection before the next one. By default
 *   it may grow to up to four times that size: with 100 pods and 20 consoles 58 MiB are in use, and the
 *   resident memory is 60 MiB larger.
 */
export const nodeOptions: readonly string[] = ['--max-semi-space-size=4', '--heap-growing-percent=100']
