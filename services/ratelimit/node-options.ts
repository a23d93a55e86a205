/**
 * The options of Node with which a process of this service is to be started.
 *
 * - By itself V8 lets the memory for new objects grow to 128 MiB; two halves of 4 are filled so slowly that
 * the calls of a busy connection end meanwhile, and that brings the resident memory with 10,000 rules under
 * load from 233 MiB to 118. Halves of 8 take 4 MiB more, and are slower where nothing but the processor's
 * caches counts; with halves of 2, a tenth of the time goes into collections.
 * - What there is to collect takes one thread a millisecond. Several wait for each other on the core that the
 * process has, and each keeps pages of its own: with one, 10,000 rules take up to 80 MiB less under load, and
 * a decision of two nested descriptors a fifth less of the processor.
 * - V8 allocates among its old objects what an expression makes, once most of what it made has outlived a
 * collection. A burst of calls right after the start does that, and from then on each call leaves what only a
 * collection of the whole heap finds: for as long as the process lives, 13 % of its time go into collections
 * instead of 3, and it takes 165 MiB instead of 113. Here nothing that a call makes is to live long.
 */
export const nodeOptions: readonly string[] = [
  '--max-semi-space-size=4',
  '--no-parallel-scavenge',
  '--no-allocation-site-pretenuring',
]

/**
 * The variables of the environment with which a process of this service is to be started.
 *
 * V8 compiles on several threads, and malloc keeps an arena of memory for each of them by itself. With one
 * arena for all, what one compilation has freed serves the next one: 10 MiB less are resident after the first
 * minute of load, and a decision takes the same time.
 */
export const nodeEnvironment: Readonly<Record<string, string>> = { MALLOC_ARENA_MAX: '1' }
