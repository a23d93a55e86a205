/**
 * The options of Node for a process of this service.
 *
 * - By default V8 lets the memory for new objects grow to 128 MiB. Two semi-spaces of 4 MiB are filled slowly
 *   enough for the calls of a busy connection to end meanwhile. They reduce the resident memory with 10,000
 *   rules under load from 233 MiB to 118. Semi-spaces of 8 MiB take 4 MiB more, and are slower where only the
 *   processor's caches matter; with semi-spaces of 2 MiB, garbage collection takes a tenth of the time.
 * - A scavenge takes one thread about a millisecond. Several threads wait for each other on the single core
 *   of the process, and each keeps pages of its own. With one thread, 10,000 rules take up to 80 MiB less
 *   under load, and a decision of two nested descriptors takes a fifth less CPU time.
 * - V8 allocates the objects of an expression in the old generation (pretenuring) after most of its objects
 *   have survived a collection. A burst of calls right after the start causes that, and from then on each
 *   call leaves garbage that only a full collection finds: 13 % of the CPU time goes into collections instead
 *   of 3 %, and the process takes 165 MiB instead of 113. The objects of a call are all short-lived here.
 * - By default V8 lets the old generation grow to several times what is in use before it collects it, and
 *   keeps the freed pages. V8's memory reducer does not return these pages, because it takes a process
 *   without allocations for a busy one. After floods of connections with waiting calls the process stays at
 *   144 to 164 MiB; if the generation grows by half instead, at 115 to 123 MiB. Decisions by 10,000 rules
 *   cause no collection of the old generation with either growth; 40,000 calls with new keys, counted in
 *   memory, cause two of 20 ms.
 */
export const nodeOptions: readonly string[] = [
  '--max-semi-space-size=4',
  '--no-parallel-scavenge',
  '--no-allocation-site-pretenuring',
  '--heap-growing-percent=50',
]
