import assert from 'node:assert/strict'
import type { JsonObject } from '@bufbuild/protobuf'
import { parseUnit, unitSeconds } from '@tollway/ratelimit/rules/units.ts'
import { type About, expectedAnswer } from './differences.ts'
import type { Answer, Pair, Request } from './pair.ts'
import { type Descriptor, type RequestPlan, requestOf } from './random-traffic.ts'

/** A domain and its requests. */
export interface Scene {
  /** The domain's name; each retry uses another domain with the same rules. */
  readonly name: string
  readonly descriptors: readonly Descriptor[]
  readonly plans: readonly RequestPlan[]
  /** Whether all its rules are quotas. */
  readonly quotas: boolean
}

export interface Mode {
  readonly globalShadowMode: boolean
  readonly globalQuotaMode: boolean
}

/**
 * A scene is repeated in another domain when a window ended meanwhile, since the sides may see its end at
 * different times.
 */
export const maxTries = 3

export const domainOf = ({ name }: Scene, attempt: number) => `${name}-${attempt}`

/** Returns the configuration files of a scene, for both services. */
export function filesOf(scene: Scene): readonly string[] {
  return Array.from({ length: maxTries }, (_, attempt) =>
    JSON.stringify({ domain: domainOf(scene, attempt), descriptors: scene.descriptors }),
  )
}

/**
 * Sends all requests to both sides, one at a time, and fails at the first difference. Returns the domain in
 * which no window ended meanwhile; undefined when there was none.
 */
export async function play(
  pair: Pair,
  scene: Scene,
  mode: Mode,
  used: Set<string>,
): Promise<string | undefined> {
  const lengths = windowLengths(scene.descriptors)
  for (let attempt = 0; attempt < maxTries; attempt++) {
    const domain = domainOf(scene, attempt)
    const startSeconds = Date.now() / 1000
    const asked: { request: Request; ours: Answer; reference: Answer }[] = []
    for (const plan of scene.plans) {
      const request = requestOf(plan, domain, scene.descriptors)
      asked.push({ request, ...(await pair.ask(request)) })
    }
    const endSeconds = Date.now() / 1000
    if (lengths.some(length => Math.floor(startSeconds / length) !== Math.floor(endSeconds / length)))
      continue
    for (const [index, { request, ours, reference }] of asked.entries()) {
      const about = {
        request,
        ours,
        globalShadowMode: mode.globalShadowMode,
        isQuota: quotaRule(scene, mode, request),
      }
      const expected = expectedAnswer(reference, about, used)
      explain(() => assert.deepEqual(ours, expected), scene, asked.slice(0, index + 1))
    }
    await compareCounters(pair, domain, endSeconds - startSeconds, error =>
      explain(
        () => {
          throw error
        },
        scene,
        asked,
      ),
    )
    return domain
  }
  return undefined
}

/** Returns the lengths of all windows in the configuration; limits in requests have at least an hour. */
function windowLengths(descriptors: readonly Descriptor[]): readonly number[] {
  const lengths = new Set<number>([unitSeconds.hour, unitSeconds.day])
  const collect = (level: readonly Descriptor[]) => {
    for (const { rate_limit, descriptors = [] } of level) {
      const unit = parseUnit(String(rate_limit?.['unit'] ?? ''))
      if (unit !== undefined) lengths.add(unitSeconds[unit])
      collect(descriptors)
    }
  }
  collect(descriptors)
  return [...lengths]
}

/** A status without a limit is not a quota, unless all are; that of an unlimited rule never is. */
function quotaRule(scene: Scene, mode: Mode, request: Request): About['isQuota'] {
  return (status: JsonObject, index: number) => {
    if (mode.globalQuotaMode) return 'currentLimit' in status || !('limitRemaining' in status)
    return scene.quotas && 'currentLimit' in status && request.descriptors?.[index]?.limit === undefined
  }
}

/**
 * Compares the keys of a domain in Redis. The reference sets the expiry of a key at each hit, the service at
 * the first, so they may differ by the duration of the scene.
 */
async function compareCounters(
  pair: Pair,
  domain: string,
  tookSeconds: number,
  fail: (error: unknown) => void,
): Promise<void> {
  const [ours, reference] = await Promise.all([pair.ours.counters(domain), pair.reference.counters(domain)])
  try {
    for (const [key, { value, ttlSeconds }] of reference) {
      // The key may have expired on the other side by now.
      if (ttlSeconds <= 2) continue
      const own = ours.get(key)
      // The reference leaves a 0 where it only read.
      if (value === '0')
        assert.ok(own === undefined || own.value === '0', `${key} is ${own?.value} in the service`)
      else {
        assert.equal(own?.value, value, `the value of ${key}`)
        assert.ok(
          Math.abs((own?.ttlSeconds ?? 0) - ttlSeconds) <= 2 + tookSeconds,
          `${key}: ${own?.ttlSeconds} s, not ${ttlSeconds}`,
        )
      }
    }
    for (const [key, { ttlSeconds }] of ours)
      assert.ok(ttlSeconds <= 2 || reference.has(key), `only the service has ${key}`)
  } catch (error) {
    fail(error)
  }
}

/** Runs a check; its error then includes the configuration and all earlier requests. */
function explain(check: () => void, scene: Scene, asked: readonly { readonly request: Request }[]): void {
  try {
    check()
  } catch (error) {
    const text = (value: unknown) =>
      JSON.stringify(value, (_, part) => (typeof part === 'bigint' ? `${part}` : part))
    const requests = asked.map(({ request }) => text(request)).join('\n')
    throw new Error(
      `${(error as Error).message}\ndescriptors: ${text(scene.descriptors)}\nrequests:\n${requests}`,
    )
  }
}
