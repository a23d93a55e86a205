/**
 * The options of Node with which a process of this service is to be started.
 *
 * - By itself V8 lets the memory for new objects grow to 128 MiB; two halves of 8 are filled so slowly that the calls
 *   of a busy connection end meanwhile, and that brings the resident memory with 10,000 rules under load from 233 MiB
 *   to 156. In halves of 4, calls live long enough to be taken for old objects, which costs more memory, and more of
 *   the processor, than is won.
 * - What there is to collect takes one thread a millisecond. Several wait for each other on the core that the process
 *   has, and each keeps pages of its own: with one, 10,000 rules take 119 MiB under load where it was up to 198, and a
 *   decision of two nested descriptors a fifth less of the processor.
 */
export const nodeOptions: readonly string[] = ['--max-semi-space-size=8', '--no-parallel-scavenge']
