/** One of the workers of a pod, from 0. */
export interface WorkerPlace {
  readonly index: number
  readonly of: number
}

/**
 * Returns the part of a worker in a total of all workers, as whole numbers whose sum is the total. The
 * workers take turns with each second: each has a part at times, also if there are more workers than the
 * total.
 */
export function shareOfWorker(total: number, { index, of }: WorkerPlace, second: number): number {
  const turn = (index + second) % of
  return Math.floor((total * (turn + 1)) / of) - Math.floor((total * turn) / of)
}
