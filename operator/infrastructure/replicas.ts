import type { Infrastructure } from './provider.ts'

/** The identity that a process states. */
interface StatedIdentity {
  readonly uid: string
  readonly pod: string
}

interface AdmitReplicasOptions {
  readonly infrastructure: {
    observe(workload: string): readonly { readonly uid: string; readonly name: string }[]
  }
  /** The workload of the processes. */
  readonly workload: string
  /** The other workloads. */
  readonly others: readonly string[]
  /** Whether processes that are no replicas are admitted: every process of this machine may connect. */
  readonly admitsOthers: boolean
}

/**
 * Returns a function that returns the name of the process with a uid; undefined if it is not admitted. A
 * replica is known by its uid, which only it and the infrastructure know: certificates are the same for all.
 * So a replica cannot act as another one, nor as one of another workload.
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

/** The uids that are kept. A workload has at most some hundred replicas at a time. */
const maxKnown = 10_000

/**
 * Returns a function that says whether a replica of the workload existed, and does not any more. False for a
 * process that the infrastructure has never had: it may run elsewhere.
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
