/**
 * The options of Node with which a process of the broker is to be started.
 *
 * - By itself V8 lets the memory for new objects grow, and what lives through it is given back late: 200 short
 *   requests a second bring the resident memory to 316 MB. With halves of 16 MiB it is 240. Smaller ones are worse
 *   again: what is only just in use is then taken for old, and is found to be garbage by collections that hold up
 *   messages.
 * - Old objects may become twice as many as lived through the last collection before the next one. By itself
 *   V8 shrinks its heap while it takes a broker for idle, and decides from then on, by measurements of its own, to
 *   collect several times a second: with 1,000 streams, after minutes, p99 went from 15 ms to over a second. Now
 *   there is a collection every minute or two. With three times as many it is every three, and the resident memory
 *   of 1,000 streams is 381 MB instead of 343.
 */
export const nodeOptions: readonly string[] = [
  '--max-semi-space-size=16',
  '--no-memory-reducer',
  '--heap-growing-percent=100',
]
