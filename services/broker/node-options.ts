/**
 * Options of Node for a broker.
 *
 * - By default V8 lets the memory for new objects grow and frees surviving ones late: 200 short requests a
 * second take 316 MB of resident memory, with halves of 16 MiB 240 MB. Smaller halves are worse: objects in
 * use are promoted early, and the collections that free them delay messages.
 * - Before the next collection, the old generation may grow to twice its size. By default V8 shrinks its heap
 * while the broker seems idle, and then collects several times a second: with 1,000 streams, p99 rose from 15
 * ms to over a second after some minutes. With this option there is a collection every minute or two. Three
 * times the size would make it three minutes, but 1,000 streams would take 381 MB instead of 343 MB.
 */
export const nodeOptions: readonly string[] = [
  '--max-semi-space-size=16',
  '--no-memory-reducer',
  '--heap-growing-percent=100',
]
