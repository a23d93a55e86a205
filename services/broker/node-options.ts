/**
 * The options of Node for a process of the broker.
 *
 * - By default V8 lets the memory for new objects grow and frees surviving objects late: 200 short requests a
 * second take 316 MB of resident memory. With halves of 16 MiB they take 240 MB. Smaller halves are worse:
 * objects in use are promoted early, and the collections that free them later delay messages.
 * - Before the next collection, the old generation may grow to twice its size after the last one. By default
 * V8 shrinks its heap while the broker seems idle, and then collects several times a second: with 1,000
 * streams, p99 rose from 15 ms to over a second after some minutes. With this option there is a collection
 * every minute or two. With three times the size it would be every three minutes, but the resident memory of
 * 1,000 streams would be 381 MB instead of 343 MB.
 */
export const nodeOptions: readonly string[] = [
  '--max-semi-space-size=16',
  '--no-memory-reducer',
  '--heap-growing-percent=100',
]
