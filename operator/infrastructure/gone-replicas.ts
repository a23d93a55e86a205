import type { Infrastructure } from './provider.ts'

/** The uids that are kept. A workload has at most some hundred replicas at a time. */
const maxKnown = 10_000

/**
 * Returns a function that says whether a replica of the workload existed, and does not any more. False for a
 * process that the infrastructure has never had: it may run elsewhere.
 */
export function watchGoneReplicas(
  infrastructure: Pick<Infrastructure, 'observe' | 'onChange'>,
  workload: string,
): (uid: string) => boolean {
  const known = new Set<string>()
  let present = new Set<string>()

  function update(): void {
    present = new Set(infrastructure.observe(workload).map(({ uid }) => uid))
    for (const uid of present) {
      known.delete(uid)
      known.add(uid)
    }
    for (const uid of known) {
      if (known.size <= maxKnown) break
      known.delete(uid)
    }
  }

  infrastructure.onChange(update)
  update()
  return uid => known.has(uid) && !present.has(uid)
}
