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

/** The replicas of one workload, which it changes step by step to the desired ones. */
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
    // Set before the first replica is stopped, because that change calls this function again.
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

  /** Takes the next steps towards the wanted replicas. Runs after each change; a repetition has no effect. */
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
     * Begins to reconcile the replicas. A replica with changed settings is ended and started again, in its
     * place and on its own ports. A replica that accepts calls is replaced only while all replicas replaced
     * before it accept calls again. Settings with which no replica becomes ready therefore cost one replica,
     * and the others keep their settings.
     */
    scaleTo(workload: Workload): void {
      wanted = workload
      step()
    },
    observe: (): readonly Replica[] =>
      [...members].sort(([a], [b]) => a - b).map(([, { process }]) => process.observe()),
    /** Returns whether a process, including one that is ending, has the own ports of this replica. */
    holds: (index: number): boolean => members.has(index),
    /** Ends all replicas. Resolves when they have ended. */
    async stop(): Promise<void> {
      clearTimeout(stalled)
      if (wanted !== undefined) wanted = { ...wanted, replicas: 0 }
      for (step(); ending !== undefined; ) await ending
    },
  }
}

type Move =
  | { readonly end: readonly number[]; readonly start: readonly number[] }
  /** The next step has to wait until this replica accepts calls. */
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
  // The end of a replica that accepts no calls has no cost.
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
 * Returns the settings with which a process is started. The rest of a workload, its count and grace, may
 * change while the process runs.
 */
function serializeSettings({ service, env, ports }: Workload): string {
  return JSON.stringify([service, Object.entries(env).sort(), ports])
}
