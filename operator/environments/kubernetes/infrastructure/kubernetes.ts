import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import type { PodShape } from '@tollway/crds/cluster-config.ts'
import { createLastErrors } from '../../../controller/last-errors.ts'
import type { ReflectorTiming } from '../../../controller/reflector.ts'
import { WorkQueue } from '../../../controller/work-queue.ts'
import { type Infrastructure, InfrastructureError, type Replica } from '../../../infrastructure/provider.ts'
import { createTurns } from '../../../infrastructure/turns.ts'
import type { Workload } from '../../../ir.ts'
import type { KubeClient } from '../api/client.ts'
import { isConflict } from '../api/connection/api-error.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { type BackendPollTiming, type PolledPod, pollBackends } from './backend-poll.ts'
import { type Contest, createContests } from './contests.ts'
import { createObjectWriter } from './object-writer.ts'
import { labelNames, objectName, type Place } from './objects/place.ts'
import { secretsAnnotation } from './objects/pod-template.ts'
import { workloadObjects } from './objects/workload-objects.ts'
import { observePods } from './observe-pod.ts'
import { followOwnObjects } from './own-objects.ts'
import { type Progress, progressOf } from './progress.ts'
import { reconcileObjects } from './reconcile-objects.ts'

export interface KubernetesOptions {
  readonly client: Pick<KubeClient, 'get' | 'list' | 'watch' | 'apply' | 'delete'>
  readonly place: Place
  /** What the configuration says of the pods of a service. */
  readonly shapeFor: (service: Workload['service']) => PodShape
  /** Whether this process leads. Checked before each write; other processes write nothing. */
  readonly mayWrite: () => boolean
  /** Called with lasting problems for the log, such as an API server that does not answer. */
  readonly onProblem: (message: string) => void
  /** Called when another program begins to undo repairs of an object again and again. */
  readonly onContest?: (contest: Contest) => void
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly clock?: Clock
  readonly timing?: Partial<KubernetesTiming>
}

export interface KubernetesTiming {
  /** How long `apply` and `remove` wait until it is known what there is. */
  readonly syncTimeoutMs: number
  /** How long `remove` waits until all is gone, beyond what the replicas are given. */
  readonly removeTimeoutMs: number
  readonly reflector: Partial<ReflectorTiming>
  readonly backends: Partial<BackendPollTiming>
}

const defaultTiming: KubernetesTiming = {
  syncTimeoutMs: 20_000,
  removeTimeoutMs: 60_000,
  reflector: {},
  backends: {},
}

/** The tries of a deletion that meets a changed object, and the wait for its newer state. */
const maxDeleteTries = 5
const newerStateMs = 1_000

/** The workloads of a cluster: Deployments with their other objects. */
export interface KubernetesInfrastructure extends Infrastructure {
  /** How far a workload has come; undefined when it is not there. */
  progress(name: string): Progress | undefined
  /**
   * What keeps a workload from being applied: the last error of the API server; undefined when the last
   * attempt succeeded. Only the operator that writes knows.
   */
  obstacle(name: string): string | undefined
  /** The objects that another program changes as often as this operator repairs them. */
  contests(): readonly Contest[]
  /**
   * For who leads no longer: ends the writes that are on their way, and repairs nothing until `apply` is
   * called anew. Resolves when nothing is written any more.
   */
  standDown(): Promise<void>
  /** Stands down and follows nothing any more; leaves everything in the cluster as it is. */
  close(): Promise<void>
}

/**
 * Watches the objects of the installation at once, also without leading. Applied objects are repaired when
 * others change them, until they are removed. The caller repeats an `apply` or `remove` that rejected.
 */
export function createKubernetesInfrastructure(options: KubernetesOptions): KubernetesInfrastructure {
  const { client, place, shapeFor, onProblem, random, clock = systemClock } = options
  const timing = { ...defaultTiming, ...options.timing }
  const wanted = new Map<string, Workload>()
  const turns = createTurns()
  const listeners: ((workload: string) => void)[] = []
  /** What `observe` said of each workload when its listeners were called last. */
  const told = new Map<string, string>()
  const waiting = new Set<() => void>()
  const obstacles = createLastErrors({ onChange: notify, records: options.mayWrite })
  let term = new AbortController()
  let closed = false

  const own = followOwnObjects({
    client,
    place,
    random,
    clock,
    timing: timing.reflector,
    onError: (error, retryMs) => onProblem(`${(error as Error).message}; again in ${Math.round(retryMs)} ms`),
  })
  const contests = createContests(clock, contest => {
    onProblem(contest.message)
    options.onContest?.(contest)
  })
  const writer = createObjectWriter({
    client,
    clock,
    onProblem,
    contests,
    find: own.get,
    mayWrite: options.mayWrite,
    signal: () => term.signal,
  })
  const repairs = new WorkQueue({
    concurrency: 1,
    random,
    onError: (name, error, retryMs) =>
      onProblem(`${name} is not repaired: ${(error as Error).message}; again in ${Math.round(retryMs)} ms`),
    reconcile: name =>
      turns.run(name, async () => {
        if (!options.mayWrite() || !wanted.has(name)) return 'done'
        const afterMs = await obstacles.watch(name, makeTrue(name))
        return afterMs === undefined ? 'done' : { afterMs }
      }),
  })

  /** Resolves with the time until the next attempt, if something cannot be done now. */
  function makeTrue(name: string): Promise<number | undefined> {
    const workload = keepDigest(wanted.get(name), own.get('Deployment', objectName(place, name)))
    const objects = workload === undefined ? [] : workloadObjects(workload, shapeFor(workload.service), place)
    const found = [...own.ofWorkload(name), ...writer.unseen(name)]
    return reconcileObjects({ objects, replicas: workload?.replicas ?? 0, found, own, writer })
  }

  const podsOf = (name: string) =>
    own.pods().filter(({ metadata }) => metadata.labels?.[labelNames.name] === name)
  const observe = (name: string) => observePods(podsOf(name)).map(withBackend)
  const polled = () => observePods(own.pods()).flatMap(polledPodOf)
  const backends = pollBackends({ pods: polled, onChange: lookAgain, timing: timing.backends })

  function withBackend(replica: Replica): Replica {
    const backendProblem = backends.problemOf(replica.uid)
    return backendProblem === undefined ? replica : { ...replica, backendProblem }
  }

  function notify(name: string): void {
    for (const listener of listeners) listener(name)
  }

  function lookAgain(): void {
    for (const name of wanted.keys()) repairs.add(name)
    const named = own.pods().map(({ metadata }) => metadata.labels?.[labelNames.name] ?? '')
    for (const name of new Set([...told.keys(), ...named])) {
      const text = JSON.stringify(observe(name))
      if (text === (told.get(name) ?? '[]')) continue
      told.set(name, text)
      notify(name)
    }
    for (const look of waiting) look()
  }
  own.onChange(lookAgain)

  async function known(name: string): Promise<void> {
    if (!options.mayWrite() || term.signal.aborted) throw notLeading(name)
    if (await until(own.hasSynced, timing.syncTimeoutMs)) return
    const why = closed ? 'the operator is ending' : 'the API server has not listed the objects; see the log'
    throw new InfrastructureError(`${name}: ${why}`)
  }

  /** Resolves with whether it came to hold in time. */
  async function until(holds: () => boolean, timeoutMs: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const look = () => (holds() ? resolve(true) : undefined)
    const end = () => resolve(holds())
    const timer = setTimeout(end, timeoutMs)
    term.signal.addEventListener('abort', end, { once: true })
    waiting.add(look)
    look()
    const held = await promise
    waiting.delete(look)
    clearTimeout(timer)
    return held
  }

  async function apply(workload: Workload): Promise<void> {
    await known(workload.name)
    wanted.set(workload.name, workload)
    const afterMs = await makeTrue(workload.name)
    // The queue runs after the delay, and applies the workload that is wanted at that time.
    if (afterMs !== undefined) repairs.add(workload.name)
  }

  async function remove(name: string): Promise<void> {
    await known(name)
    const graceMs = wanted.get(name)?.stopGraceMs ?? 0
    wanted.delete(name)
    const left = () => [...own.ofWorkload(name).map(({ object }) => object), ...podsOf(name)]
    await deleteAll(name, left)
    if (await until(() => left().length === 0, graceMs + timing.removeTimeoutMs)) return
    const names = left().map(({ metadata }) => metadata.name)
    throw new InfrastructureError(`${name}: not gone yet: ${names.join(', ')}; does a finalizer hold them?`)
  }

  /** While the status of an object changes, its known version may be too old for a deletion. */
  async function deleteAll(name: string, left: () => readonly KubeObject[]): Promise<void> {
    const versions = () =>
      left()
        .map(({ metadata }) => metadata.resourceVersion)
        .join()
    for (let tries = 1; ; tries++) {
      const known = versions()
      try {
        await makeTrue(name)
        return
      } catch (error) {
        if (!isConflict((error as Error).cause) || tries === maxDeleteTries) throw error
      }
      await until(() => versions() !== known, newerStateMs)
    }
  }

  async function standDown(): Promise<void> {
    wanted.clear()
    obstacles.clear()
    contests.clear()
    term.abort(notLeading('a workload'))
    await turns.settled()
    term = new AbortController()
  }

  return {
    apply: workload => turns.run(workload.name, () => obstacles.watch(workload.name, apply(workload))),
    remove: name => turns.run(name, () => remove(name)),
    observe,
    onChange: listener => listeners.push(listener),
    progress(name) {
      const deployment = own.get('Deployment', objectName(place, name))
      return deployment === undefined ? undefined : progressOf(deployment, observe(name), place.revision)
    },
    obstacle: obstacles.of,
    contests: contests.current,
    standDown,
    async close() {
      closed = true
      backends.stop()
      await standDown()
      await Promise.all([own.stop(), repairs.stop()])
    },
  }
}

function polledPodOf({ uid, ready, addresses: { metrics } }: Replica): readonly PolledPod[] {
  return ready && metrics !== undefined ? [{ uid, url: metrics }] : []
}

/** A workload with unknown Secrets keeps the digest of its Deployment, so that no replica is replaced. */
function keepDigest(workload: Workload | undefined, live: KubeObject | undefined): Workload | undefined {
  const secretsDigest = live && annotationOfPods(live)
  if (workload?.secretsDigest !== undefined || secretsDigest === undefined) return workload
  return workload && { ...workload, secretsDigest }
}

function annotationOfPods({ spec }: KubeObject): string | undefined {
  type Spec = { readonly template?: { readonly metadata?: KubeObject['metadata'] } }
  return (spec as Spec | undefined)?.template?.metadata?.annotations?.[secretsAnnotation]
}

function notLeading(name: string): InfrastructureError {
  return new InfrastructureError(`${name}: write nothing: another operator has the Lease`)
}
