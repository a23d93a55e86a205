import type { Infrastructure } from './provider.ts'

/** What a process that connects to the feed says about itself. */
interface StatedIdentity {
  readonly uid: string
  readonly pod: string
}

interface AdmitReplicasOptions {
  readonly infrastructure: {
    observe(workload: string): readonly { readonly uid: string; readonly name: string }[]
  }
  readonly workload: string
  readonly others: readonly string[]
  /** Whether processes that are no replica of any workload are admitted too, as on one machine. */
  readonly admitsOthers: boolean
}

/**
 * Returns a function from the uid of a process to its name; undefined if the process is not admitted. Only a
 * replica and the infrastructure know the replica's uid, so no replica can act as another one. Certificates
 * cannot tell replicas apart, because all replicas have the same one.
 */
export function admitReplicas({
  infrastructure,
  workload,
  others,
  admitsOthers,
}: AdmitReplicasOptions): (identity: StatedIdentity) => string | undefined {
  const find = (name: string, uid: string) =>
    infrastructure.observe(name).find(replica => replica.uid === uid)

  return ({ uid, pod }) => {
    const replica = find(workload, uid)
    if (replica !== undefined) return replica.name
    if (!admitsOthers || others.some(other => find(other, uid) !== undefined)) return undefined
    return pod || uid
  }
}

/** At most this many uids are kept, the latest; a workload has some hundred replicas at a time. */
const maxKnown = 10_000

/**
 * Returns a function that says whether a replica of the workload existed and exists no more. It returns false
 * for a uid that the infrastructure has never had, because that process may run elsewhere.
 */
export function watchRemovedReplicas(
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
