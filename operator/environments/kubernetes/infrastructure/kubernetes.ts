import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import type { PodShape } from '@tollway/crds/cluster-config.ts'
import { createLastErrors, type LastErrors } from '../../../controller/last-errors.ts'
import { isConflict } from '../../../controller/lease-elector.ts'
import type { ReflectorTiming } from '../../../controller/reflector.ts'
import { type ReconcileOutcome, WorkQueue } from '../../../controller/work-queue.ts'
import { type Infrastructure, InfrastructureError, type Replica } from '../../../infrastructure/provider.ts'
import { createSerialTasks } from '../../../infrastructure/serial-tasks.ts'
import type { Workload } from '../../../model.ts'
import { objectName } from '../../../workloads/cluster-names.ts'
import type { KubeClient } from '../api/client.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { type BackendPoll, type BackendPollTiming, type PolledPod, pollBackends } from './backend-poll.ts'
import { type ContestedObject, type ContestedObjects, createContestedObjects } from './contested-objects.ts'
import { ObjectWriter } from './object-writer.ts'
import { type Installation, labelNames } from './objects/installation.ts'
import { secretsAnnotation } from './objects/pod-template.ts'
import { workloadObjects } from './objects/workload-objects.ts'
import { observePods } from './observe-pod.ts'
import { followOwnObjects, type OwnObjects } from './own-objects.ts'
import { type RolloutProgress, readProgress } from './progress.ts'
import { reconcileObjects } from './reconcile-objects.ts'

interface KubernetesOptions {
  readonly client: Pick<KubeClient, 'get' | 'list' | 'watch' | 'apply' | 'delete'>
  readonly installation: Installation
  readonly shapeFor: (service: Workload['service']) => PodShape
  /**
   * Returns whether this process leads. Checked before each write; a process that does not lead writes
   * nothing.
   */
  readonly mayWrite: () => boolean
  /** Called with problems for the log that last, for example if the API server does not answer. */
  readonly onProblem: (message: string) => void
  /** Called when an object becomes contested; see `ContestedObject`. */
  readonly onContested?: (contested: ContestedObject) => void
  readonly random: () => number
  readonly clock?: Clock
  readonly timing?: Partial<KubernetesTiming>
}

interface KubernetesTiming {
  /** How long `apply` and `remove` wait until the objects of the cluster have been listed. */
  readonly syncTimeoutMs: number
  /** How long `remove` waits until all objects are gone, in addition to the grace period of the replicas. */
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

/**
 * How often a deletion that conflicts with a change is tried, and how long each try waits for the newer
 * state.
 */
const maxDeleteTries = 5
const newerStateMs = 1_000

/**
 * Runs workloads in a cluster, as Deployments with further objects. Watches the objects of the installation
 * from the start, even if the operator does not lead. Repairs applied objects that other programs change,
 * until they are removed. If `apply` or `remove` rejects, the caller must repeat it.
 */
export class KubernetesInfrastructure implements Infrastructure {
  readonly #options: KubernetesOptions
  readonly #timing: KubernetesTiming
  readonly #desired = new Map<string, Workload>()
  readonly #tasks = createSerialTasks()
  readonly #listeners: ((workload: string) => void)[] = []
  /** For each workload, the result of `observe` that was last reported to the listeners, as JSON. */
  readonly #reported = new Map<string, string>()
  readonly #expectations = new Expectations()
  readonly #obstacles: LastErrors
  readonly #own: OwnObjects
  readonly #contestedObjects: ContestedObjects
  readonly #writer: ObjectWriter
  readonly #repairs: WorkQueue
  readonly #backends: BackendPoll
  /** Aborts when this operator no longer leads. */
  #term = new AbortController()
  #closed = false

  constructor(options: KubernetesOptions) {
    const { client, installation, mayWrite, onProblem, random, clock = systemClock } = options
    this.#options = options
    this.#timing = { ...defaultTiming, ...options.timing }
    this.#obstacles = createLastErrors({ onChange: name => this.#notify(name), records: mayWrite })
    const { reflector, backends } = this.#timing
    const onError = (error: unknown, retryMs: number) => this.#reportRetry((error as Error).message, retryMs)
    this.#own = followOwnObjects({ client, installation, random, clock, timing: reflector, onError })
    this.#contestedObjects = createContestedObjects(clock, contested => {
      onProblem(contested.message)
      options.onContested?.(contested)
    })
    this.#writer = new ObjectWriter({
      client,
      clock,
      mayWrite,
      onProblem,
      contestedObjects: this.#contestedObjects,
      find: this.#own.get,
      signal: () => this.#term.signal,
    })
    this.#repairs = new WorkQueue({
      concurrency: 1,
      random,
      reconcile: name => this.#tasks.run(name, () => this.#repair(name)),
      onError: (name, error, retryMs) =>
        this.#reportRetry(`${name} is not repaired: ${(error as Error).message}`, retryMs),
    })
    const pods = () => observePods(this.#own.pods()).flatMap(toPolledPods)
    const onChange = () => this.#onChange()
    this.#backends = pollBackends({ pods, onChange, timing: backends })
    this.#own.onChange(onChange)
  }

  apply(workload: Workload): Promise<void> {
    const { name } = workload
    return this.#tasks.run(name, () => this.#obstacles.watch(name, this.#apply(workload)))
  }

  remove(name: string): Promise<void> {
    return this.#tasks.run(name, () => this.#remove(name))
  }

  observe(name: string): readonly Replica[] {
    return observePods(this.#listPods(name)).map(replica => {
      const backendProblem = this.#backends.findProblem(replica.uid)
      return backendProblem === undefined ? replica : { ...replica, backendProblem }
    })
  }

  onChange(listener: (workload: string) => void): void {
    this.#listeners.push(listener)
  }

  /** Returns the progress of a workload's rollout; undefined if the workload does not exist. */
  progress(name: string): RolloutProgress | undefined {
    const deployment = this.#findDeployment(name)
    return deployment && readProgress(deployment, this.observe(name), this.#options.installation.revision)
  }

  /**
   * Returns the error of the last attempt to apply a workload; undefined if it succeeded, or if this operator
   * does not lead.
   */
  obstacle(name: string): string | undefined {
    return this.#obstacles.get(name)
  }

  contestedObjects(): readonly ContestedObject[] {
    return this.#contestedObjects.current()
  }

  /**
   * Aborts active writes, and repairs nothing until the next `apply`. Called when this operator no longer
   * leads. Resolves when no write is active.
   */
  async standDown(): Promise<void> {
    this.#desired.clear()
    this.#obstacles.clear()
    this.#contestedObjects.clear()
    this.#term.abort(notLeading('a workload'))
    await this.#tasks.settled()
    this.#term = new AbortController()
  }

  /** Calls `standDown` and ends the watches. Leaves all objects in the cluster unchanged. */
  async close(): Promise<void> {
    this.#closed = true
    this.#backends.stop()
    await this.standDown()
    await Promise.all([this.#own.stop(), this.#repairs.stop()])
  }

  async #apply(workload: Workload): Promise<void> {
    await this.#assertReady(workload.name)
    this.#desired.set(workload.name, workload)
    const afterMs = await this.#reconcile(workload.name)
    // Repeats the apply after the delay, with the workload that is then desired.
    if (afterMs !== undefined) this.#repairs.add(workload.name)
  }

  async #repair(name: string): Promise<ReconcileOutcome> {
    if (!this.#options.mayWrite() || !this.#desired.has(name)) return 'done'
    const afterMs = await this.#obstacles.watch(name, this.#reconcile(name))
    return afterMs === undefined ? 'done' : { afterMs }
  }

  async #remove(name: string): Promise<void> {
    await this.#assertReady(name)
    const graceMs = this.#desired.get(name)?.stopGraceMs ?? 0
    this.#desired.delete(name)
    await this.#deleteAll(name)
    const isGone = () => this.#remaining(name).length === 0
    if (await this.#until(isGone, graceMs + this.#timing.removeTimeoutMs)) return
    const names = this.#remaining(name).map(({ metadata }) => metadata.name)
    throw new InfrastructureError(
      `${name}: not deleted yet: ${names.join(', ')}; a finalizer may delay the deletion`,
    )
  }

  /**
   * Deletes all objects of a workload. If an object changes meanwhile, the deletion of its known version
   * conflicts and is tried again.
   */
  async #deleteAll(name: string): Promise<void> {
    const versions = () => `${this.#remaining(name).map(({ metadata }) => metadata.resourceVersion)}`
    for (let tries = 1; ; tries++) {
      const known = versions()
      try {
        await this.#reconcile(name)
        return
      } catch (error) {
        if (!isConflict((error as Error).cause) || tries === maxDeleteTries) throw error
      }
      await this.#until(() => versions() !== known, newerStateMs)
    }
  }

  /**
   * Applies or deletes the objects of a workload. Resolves with the delay before the next attempt if some
   * cannot be written yet.
   */
  #reconcile(name: string): Promise<number | undefined> {
    const { installation, shapeFor } = this.#options
    const [own, writer] = [this.#own, this.#writer]
    const workload = keepDigest(this.#desired.get(name), this.#findDeployment(name))
    const objects =
      workload === undefined ? [] : workloadObjects(workload, shapeFor(workload.service), installation)
    const found = [...own.ofWorkload(name), ...writer.unseen(name)]
    return reconcileObjects({ objects, replicas: workload?.replicas ?? 0, found, own, writer })
  }

  #findDeployment(name: string): KubeObject | undefined {
    return this.#own.get('Deployment', objectName(this.#options.installation.name, name))
  }

  #listPods(name: string): readonly KubeObject[] {
    return this.#own.pods().filter(pod => workloadOf(pod) === name)
  }

  #remaining(name: string): readonly KubeObject[] {
    return [...this.#own.ofWorkload(name).map(({ object }) => object), ...this.#listPods(name)]
  }

  /** Repairs the desired workloads, and reports those whose replicas have changed. */
  #onChange(): void {
    for (const name of this.#desired.keys()) this.#repairs.add(name)
    const names = this.#own.pods().map(pod => workloadOf(pod) ?? '')
    for (const name of new Set([...this.#reported.keys(), ...names])) {
      const text = JSON.stringify(this.observe(name))
      if (text === (this.#reported.get(name) ?? '[]')) continue
      this.#reported.set(name, text)
      this.#notify(name)
    }
    this.#expectations.check()
  }

  #notify(name: string): void {
    for (const listener of this.#listeners) listener(name)
  }

  #reportRetry(problem: string, retryMs: number): void {
    this.#options.onProblem(`${problem}; again in ${Math.round(retryMs)} ms`)
  }

  /**
   * Resolves when the objects of the cluster have been listed. Rejects after a time limit, or if this
   * operator does not lead.
   */
  async #assertReady(name: string): Promise<void> {
    if (!this.#options.mayWrite() || this.#term.signal.aborted) throw notLeading(name)
    if (await this.#until(this.#own.hasSynced, this.#timing.syncTimeoutMs)) return
    const notListed = 'the API server has not listed the objects; see the log'
    throw new InfrastructureError(`${name}: ${this.#closed ? 'the operator is ending' : notListed}`)
  }

  #until(isMet: () => boolean, timeoutMs: number): Promise<boolean> {
    return this.#expectations.until(isMet, timeoutMs, this.#term.signal)
  }
}

class Expectations {
  readonly #checks = new Set<() => void>()

  check(): void {
    for (const check of this.#checks) check()
  }

  /**
   * Resolves when the condition is met, after the time limit, or when the signal aborts. The result is
   * whether it is met.
   */
  async until(isMet: () => boolean, timeoutMs: number, signal: AbortSignal): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const check = () => (isMet() ? resolve(true) : undefined)
    const end = () => resolve(isMet())
    const timer = setTimeout(end, timeoutMs)
    signal.addEventListener('abort', end, { once: true })
    this.#checks.add(check)
    check()
    const wasMet = await promise
    this.#checks.delete(check)
    clearTimeout(timer)
    return wasMet
  }
}

const workloadOf = ({ metadata }: KubeObject) => metadata.labels?.[labelNames.name]

function toPolledPods({ uid, ready, addresses: { metrics } }: Replica): readonly PolledPod[] {
  return ready && metrics !== undefined ? [{ uid, url: metrics }] : []
}

/**
 * Returns the workload with the digest of its Deployment if the digest of its Secrets is unknown, so that no
 * replica is replaced.
 */
function keepDigest(workload: Workload | undefined, live: KubeObject | undefined): Workload | undefined {
  const secretsDigest = live && readSecretsDigest(live)
  if (workload?.secretsDigest !== undefined || secretsDigest === undefined) return workload
  return workload && { ...workload, secretsDigest }
}

function readSecretsDigest({ spec }: KubeObject): string | undefined {
  type Spec = { readonly template?: { readonly metadata?: KubeObject['metadata'] } }
  return (spec as Spec | undefined)?.template?.metadata?.annotations?.[secretsAnnotation]
}

function notLeading(name: string): InfrastructureError {
  return new InfrastructureError(`${name}: no object is written: another operator has the Lease`)
}
