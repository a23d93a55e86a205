import type { Clock } from '@tollway/chassis/clock.ts'
import type { Replica } from '../../../infrastructure/provider.ts'
import type { Workload } from '../../../model.ts'
import type { ReplicaCommand } from './launch-child.ts'
import type { LogLine } from './lines.ts'
import { type ReplicaOptions, ReplicaProcess } from './replica.ts'

interface ReplicaSetOptions extends Pick<ReplicaOptions, 'forceShutdown' | 'heartbeat'> {
  readonly name: string
  readonly command: ReplicaCommand
  readonly envFor: (workload: Workload, index: number, uid: string) => Readonly<Record<string, string>>
  readonly addressesFor: (workload: Workload, index: number) => Readonly<Record<string, string>>
  readonly rolloutTimeoutMs: number
  readonly clock: Clock
  readonly random: () => number
  readonly newUid: () => string
  readonly log: (line: LogLine) => void
  readonly onChange: () => void
}

/** Runs the replicas of one workload, and replaces them one by one when the workload changes. */
export type ReplicaSet = ReturnType<typeof createReplicaSet>

interface Member {
  readonly settings: string
  readonly process: ReplicaProcess
}

export function createReplicaSet(options: ReplicaSetOptions) {
  const members = new Map<number, Member>()
  let wanted: Workload | undefined
  let ending: Promise<void> | undefined
  let stalled: NodeJS.Timeout | undefined

  const changed = () => {
    options.onChange()
    step()
  }

  const start = (workload: Workload, index: number) => {
    const process = new ReplicaProcess({
      ...options,
      name: `${options.name}-${index}`,
      envFor: uid => options.envFor(workload, index, uid),
      addresses: options.addressesFor(workload, index),
      onChange: changed,
    })
    members.set(index, { settings: serializeSettings(workload), process })
  }

  const end = (indices: readonly number[], graceMs: number) => {
    // Set before the first replica is stopped, because that change calls `step` again.
    const { promise, resolve } = Promise.withResolvers<void>()
    ending = promise
    const ended = indices.map(async index => {
      await members.get(index)?.process.stop(graceMs)
      members.delete(index)
    })
    void Promise.all(ended).then(() => {
      ending = undefined
      resolve()
      changed()
    })
  }

  /** Takes the next step towards the wanted replicas. Called after each change; may be called at any time. */
  const step = () => {
    if (wanted === undefined || ending !== undefined) return
    const workload = wanted
    const move = nextMove(workload, members)
    if ('waitFor' in move) {
      stalled ??= setTimeout(() => reportStalledRollout(options, move.waitFor), options.rolloutTimeoutMs)
      return
    }
    clearTimeout(stalled)
    stalled = undefined
    if (move.end.length > 0) end(move.end, workload.stopGraceMs)
    if (move.start.length === 0) return
    for (const index of move.start) start(workload, index)
    changed()
  }

  return {
    /**
     * Starts to bring the replicas to the workload. A replica with other settings is ended and started again
     * with the same index and its own ports. A replica that accepts calls is replaced only while all others
     * accept calls. So if no replica becomes ready with the new settings, only one replica is lost, and the
     * others keep their settings.
     */
    scaleTo(workload: Workload): void {
      wanted = workload
      step()
    },
    observe: (): readonly Replica[] =>
      [...members].sort(([a], [b]) => a - b).map(([, { process }]) => process.observe()),
    /**
     * Returns whether a process, possibly one that is ending, has the own ports of the replica with this
     * index.
     */
    holds: (index: number): boolean => members.has(index),
    /** Resolves when all replicas have ended. */
    async stop(): Promise<void> {
      clearTimeout(stalled)
      if (wanted !== undefined) wanted = { ...wanted, replicas: 0 }
      for (step(); ending !== undefined; ) await ending
    },
  }
}

type Move =
  | { readonly end: readonly number[]; readonly start: readonly number[] }
  /** No step can be taken until this replica accepts calls. */
  | { readonly waitFor: Member }

function nextMove(workload: Workload, members: ReadonlyMap<number, Member>): Move {
  const indices = [...members.keys()].sort((a, b) => a - b)
  const surplus = indices.filter(index => index >= workload.replicas)
  if (surplus.length > 0) return { end: surplus, start: [] }
  const missing = Array.from({ length: workload.replicas }, (_, index) => index).filter(i => !members.has(i))
  if (missing.length > 0) return { end: [], start: missing }
  const settings = serializeSettings(workload)
  const isReady = (member: Member | undefined) => member?.process.observe().ready === true
  const old = indices.filter(index => members.get(index)?.settings !== settings)
  // Replicas that accept no calls can be ended without loss.
  const idle = old.filter(index => !isReady(members.get(index)))
  if (idle.length > 0) return { end: idle, start: [] }
  const waitFor = [...members.values()].find(member => !isReady(member))
  return old.length > 0 && waitFor !== undefined ? { waitFor } : { end: old.slice(0, 1), start: [] }
}

function reportStalledRollout({ name: source, log }: ReplicaSetOptions, { process }: Member): void {
  const { name, reason } = process.observe()
  log({
    source,
    text: `the rollout waits until ${name} is ready with the new settings: ${reason}`,
  })
}

/**
 * Returns the settings with which a process is started. The other values of a workload, the number of
 * replicas and the stop grace, can change while it runs.
 */
function serializeSettings({ service, env, ports }: Workload): string {
  return JSON.stringify([service, Object.entries(env).sort(), ports])
}
