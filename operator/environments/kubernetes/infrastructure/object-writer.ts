import type { Clock } from '@tollway/chassis/clock.ts'
import type { RateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import { InfrastructureError } from '../../../infrastructure/provider.ts'
import { KubeApiError } from '../api/api-error.ts'
import type { KubeClient } from '../api/client.ts'
import type { KubeObject } from '../api/kube-object.ts'
import {
  type AppliedObjects,
  countRepair,
  createAppliedObjects,
  type NextStep,
  unseenMs,
} from './applied-objects.ts'
import { type ContestedObjects, handOverReplicas, mustHandOver } from './contested-objects.ts'
import { kinds, requireKind, type WorkloadObjectKind } from './kinds.ts'
import { labelNames } from './objects/installation.ts'
import type { KindObject } from './own-objects.ts'

interface ObjectWriterOptions {
  readonly client: Pick<KubeClient, 'get' | 'apply' | 'delete'>
  readonly find: (kind: WorkloadObjectKind, name: string) => KubeObject | undefined
  readonly clock: Clock
  readonly mayWrite: () => boolean
  readonly onProblem: (message: string) => void
  readonly contestedObjects: Pick<ContestedObjects, 'changed'>
  /** Returns a signal that aborts when this operator no longer leads. */
  readonly signal: () => AbortSignal
}

/** Writes single objects, but only those that need it. The methods reject with an `InfrastructureError`. */
export class ObjectWriter {
  readonly #options: ObjectWriterOptions
  readonly #client: ObjectWriterOptions['client']
  readonly #applied: AppliedObjects
  /** Limits the removals of an object that another program creates again after each removal. */
  readonly #removals = new Map<string, RateLimiter>()
  /** The problem that was last reported of each object, until the object can be written again. */
  readonly #reported = new Map<string, string>()
  /** Objects that another program changed, and whose repair has to wait. */
  readonly #withheld = new Set<string>()
  /** When the deletion of the object with this uid was requested. */
  readonly #removedMs = new Map<string, number>()

  constructor(options: ObjectWriterOptions) {
    this.#options = options
    this.#client = leadersClient(options)
    this.#applied = createAppliedObjects(options.clock)
  }

  /**
   * Applies the object if necessary. If it must not be written yet, resolves with the delay before the next
   * call.
   *
   * @param replicas the initial number of replicas of a Deployment with an autoscaler
   */
  async put(desired: KubeObject, live: KubeObject | undefined, replicas: number) {
    try {
      return await this.#put(desired, live, replicas)
    } catch (error) {
      throw writeError(error, 'applied', desired)
    }
  }

  /**
   * Deletes the object if it still has this uid and version. If it must not be deleted yet, resolves with the
   * delay before the next call.
   */
  async remove(live: KubeObject): Promise<number | undefined> {
    try {
      return await this.#remove(live)
    } catch (error) {
      throw writeError(error, 'deleted', live)
    }
  }

  /** Returns the objects of a workload that were applied but that the watches have not reported yet. */
  unseen(workload: string): readonly KindObject[] {
    return this.#applied
      .unseen(result => this.#options.find(requireKind(result), result.metadata.name))
      .filter(({ metadata }) => metadata.labels?.[labelNames.name] === workload)
      .map(object => ({ kind: requireKind(object), object }))
  }

  async #put(desired: KubeObject, known: KubeObject | undefined, replicas: number) {
    const key = describeObject(desired)
    const live = this.#wasRemovedLately(known?.metadata.uid ?? '') ? undefined : known
    if (live?.metadata.deletionTimestamp !== undefined) {
      const held = live.metadata.finalizers?.join(', ') ?? ''
      this.#report(key, `${key} is being deleted, and is created again afterwards; its finalizers: ${held}`)
      return undefined
    }
    const step = this.#applied.nextStep(key, desired, live)
    // While a repair has to wait, the same change is not counted again.
    if (isForeignChange(step) && !this.#withheld.has(key))
      this.#options.contestedObjects.changed(desired, live)
    if (step.what === 'wait') {
      if (step.why === 'contested') this.#withheld.add(key)
      return step.ms
    }
    this.#reported.delete(key)
    this.#withheld.delete(key)
    if (step.what === 'apply') await this.#apply(desired, live, replicas)
    return undefined
  }

  async #apply(desired: KubeObject, live: KubeObject | undefined, replicas: number): Promise<void> {
    const key = describeObject(desired)
    if (requireKind(desired) === 'Deployment' && mustHandOver(desired, live)) {
      await handOverReplicas(this.#client, desired, replicas)
    }
    this.#removals.delete(key)
    const result = await this.#client.apply(kinds[requireKind(desired)], desired, { force: true })
    this.#applied.applied(key, desired, result)
  }

  async #remove(live: KubeObject): Promise<number | undefined> {
    const key = describeObject(live)
    const { uid = '', deletionTimestamp } = live.metadata
    if (deletionTimestamp !== undefined || this.#wasRemovedLately(uid)) return undefined
    const waitMs = this.#removals.get(key)?.waitMs() ?? 0
    if (waitMs > 0) return waitMs
    await this.#client.delete(kinds[requireKind(live)], { ...live.metadata, uid })
    this.#removedMs.set(uid, this.#options.clock.monotonicMs())
    const isRepeated = this.#removals.has(key)
    countRepair(this.#removals, key, this.#options.clock)
    if (isRepeated) this.#options.contestedObjects.changed(live, live)
    this.#applied.forget(key)
    return undefined
  }

  /** Returns whether the object was deleted so recently that the watched copy may still contain it. */
  #wasRemovedLately(uid: string): boolean {
    const nowMs = this.#options.clock.monotonicMs()
    for (const [other, atMs] of this.#removedMs) {
      if (nowMs - atMs > unseenMs) this.#removedMs.delete(other)
    }
    return this.#removedMs.has(uid)
  }

  #report(key: string, problem: string): void {
    if (this.#reported.get(key) !== problem) this.#options.onProblem(problem)
    this.#reported.set(key, problem)
  }
}

/** Returns a client that writes only while this operator leads. Its calls are aborted when that ends. */
function leadersClient({ client, mayWrite, signal }: ObjectWriterOptions): ObjectWriterOptions['client'] {
  const assertLeading = () => {
    if (!mayWrite()) throw new InfrastructureError('no object is written: another operator has the Lease')
  }
  return {
    get: (resource, key) => client.get(resource, key, { signal: signal() }),
    async apply(resource, object, options) {
      assertLeading()
      return client.apply(resource, object, { ...options, signal: signal() })
    },
    async delete(resource, version) {
      assertLeading()
      await client.delete(resource, version, { signal: signal() })
    },
  }
}

function isForeignChange(step: NextStep): boolean {
  if (step.what === 'wait') return step.why === 'contested'
  return step.what === 'apply' && step.isRepair
}

function describeObject({ kind, metadata }: KubeObject): string {
  return `${kind} "${metadata.name}"`
}

/**
 * What a person can do about an answer, by its code and its words. The first matching row applies; no codes
 * means any error.
 */
const advice: readonly (readonly [codes: readonly number[], words: RegExp, advice: string])[] = [
  [[403], /exceeded quota/, 'raise the quota of the namespace, or ask for less'],
  [[], /admission (webhook|policy)|ValidatingAdmissionPolicy/i, 'a policy of the cluster rejects it'],
  [[403], /PodSecurity/, 'the namespace must let pods of the profile "restricted" run'],
  [[403], /./, 'a policy of the cluster or its authorization rejects it'],
  [[401], /./, 'the cluster does not accept the token of the operator'],
  [
    [422],
    /field is immutable/,
    'the field is immutable: delete the object, and the operator creates it again',
  ],
  // The API server answers with 500 to an object that it cannot parse.
  [
    [],
    /quantities must match|unable to convert|failed to create typed/,
    'correct the pods of the service in the configuration',
  ],
  [[400, 422], /./, 'correct the pods of the service in the configuration'],
  [[404], /namespaces? /, 'create its namespace'],
  [[404], /./, 'the cluster does not have this kind; it must be Kubernetes 1.27 or newer'],
  [[409], /./, 'another client changed it at the same time; the operator retries'],
]
const trouble = 'the API server is failing or unreachable; the operator retries'

/** Matches the API server's `cannot patch resource "deployments" in API group "apps"`. */
const missingPermission = /cannot (\w+) resource "([^"]+)" in API group "([^"]*)"/

/**
 * Returns an error for people: the object, the words of the server, and what to do.
 *
 * @param verb `applied` or `deleted`
 */
function writeError(error: unknown, verb: string, { kind, metadata }: KubeObject): unknown {
  if (!(error instanceof KubeApiError)) return endOfTerm(error)
  const words = error.code === 0 ? error.message : error.message.replace(/^.*?: \d+ \w+: /, '')
  const what = `${kind} "${metadata.name}" of the namespace "${metadata.namespace}" cannot be ${verb}`
  return new InfrastructureError(
    `${what}: ${words} (${error.code} ${error.reason}); ${adviceFor(error, words)}`,
    {
      cause: error,
      retryAfterMs: error.retryAfterMs,
    },
  )
}

/**
 * Returns the cause of an aborted call if it is that this operator no longer leads; otherwise the error
 * itself.
 */
function endOfTerm(error: unknown): unknown {
  return error instanceof Error && error.cause instanceof InfrastructureError ? error.cause : error
}

function adviceFor({ code }: KubeApiError, words: string): string {
  const [, verb, resource, group] = missingPermission.exec(words) ?? []
  if (code === 403 && verb !== undefined) {
    return `the operator's role lacks the permission to ${verb} ${resource} of the API group "${group}"`
  }
  const found = advice.find(
    ([codes, pattern]) => (codes.length === 0 ? code >= 400 : codes.includes(code)) && pattern.test(words),
  )
  return found?.[2] ?? trouble
}

/**
 * The codes of answers that do not depend on the object. 500 is not one of them, because an object may cause
 * it.
 */
const outageCodes: ReadonlySet<number> = new Set([0, 401, 429, 503, 504])

/** Returns whether writes of other objects would fail with the same error. */
export function isOutage({ cause }: InfrastructureError): boolean {
  if (!(cause instanceof KubeApiError)) return true
  return outageCodes.has(cause.code)
}
