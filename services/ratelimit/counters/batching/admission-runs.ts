import type { LimitCheck, LimitOutcome } from '../admission/limit-check.ts'
import { CountersError } from '../counters.ts'
import type { PipelineCall, SendCalls } from './pipeline.ts'
import { createMissingAnswer, type Send } from './send.ts'

/** Calls that one run of the admission script decides, in the order of arrival. */
export interface AdmissionRun {
  /** Each key once. */
  readonly keys: readonly string[]
  /** For each distinct limit, one check that has it. */
  readonly limits: readonly LimitCheck[]
  /**
   * The calls as a flat list of numbers. A call is the number of its checks, and then for each check the
   * index of its key, the index of its limit, and its hits. A call for leases has the number of its checks
   * negated, and for each check also the numbers of its `LeaseTerms`.
   */
  readonly calls: readonly number[]
  readonly checks: readonly LimitCheck[]
}

/** An outcome for each check of a run; if one call failed, each of its checks has the error. */
export type RunOutcomes = readonly (LimitOutcome | CountersError)[]

class OpenRun implements AdmissionRun {
  readonly keys: string[] = []
  readonly limits: LimitCheck[] = []
  readonly calls: number[] = []
  readonly checks: LimitCheck[] = []
  readonly #indexes = new Map<string, number>()
  /** For each key, the index of its limit. */
  readonly #limitOfKey: number[] = []

  /** Returns false and adds nothing if one of the call's keys has another limit in this run. */
  add(checks: readonly LimitCheck[]): boolean {
    if (!checks.every(check => this.#isAlike(check))) return false
    this.calls.push(checks[0]?.lease === undefined ? checks.length : -checks.length)
    for (const check of checks) {
      const limit = indexOfLimit(this.limits, check)
      const { key, hits, lease } = check
      this.calls.push(this.#keyIndex(key, limit), limit, hits)
      if (lease !== undefined) {
        this.calls.push(lease.atLeast, lease.holds, lease.replaced, lease.sinceMicros)
      }
      this.checks.push(check)
    }
    return true
  }

  #isAlike(check: LimitCheck): boolean {
    const index = this.#indexes.get(check.key)
    const limit = index === undefined ? undefined : this.limits[this.#limitOfKey[index] ?? -1]
    return limit === undefined || isSameLimit(limit, check)
  }

  #keyIndex(key: string, limit: number): number {
    const found = this.#indexes.get(key)
    if (found !== undefined) return found
    const index = this.keys.length
    this.#indexes.set(key, index)
    this.keys.push(key)
    this.#limitOfKey.push(limit)
    return index
  }
}

/**
 * Returns the index of the first check with the same limit, which is added if there is none. Searches all limits
 * of the run, since there are few.
 */
export function indexOfLimit(limits: LimitCheck[], check: LimitCheck): number {
  for (let index = 0; index < limits.length; index += 1) {
    if (isSameLimit(limits[index] as LimitCheck, check)) return index
  }
  return limits.push(check) - 1
}

export function isSameLimit(a: LimitCheck, b: LimitCheck): boolean {
  return (
    a.limit === b.limit &&
    a.burst === b.burst &&
    a.windowTicks === b.windowTicks &&
    a.ticksPerSecond === b.ticksPerSecond &&
    a.algorithm === b.algorithm &&
    a.expirySeconds === b.expirySeconds &&
    a.shadow === b.shadow &&
    a.countRejected === b.countRejected &&
    a.grants === b.grants &&
    a.leased === b.leased
  )
}

/**
 * Sends the calls of a write in as few runs as possible, so that many callers cost the backend little more
 * than one. Calls of one key are decided in the order of arrival.
 *
 * @param findSlot returns a number that all keys of a run must share: the slot of a Redis Cluster
 */
export function sendRuns(
  send: Send<AdmissionRun, RunOutcomes>,
  findSlot: (key: string) => number = () => 0,
): SendCalls<LimitCheck, LimitOutcome> {
  return (calls, onAnswers) => {
    const runs: OpenRun[] = []
    const lastRuns = new Map<number, number>()
    const locations = calls.map(call => addToRun(runs, lastRuns, call, findSlot(call.batch[0]?.key ?? '')))
    send(runs, (answers, problem) => {
      onAnswers(index => {
        const location = locations[index]
        const answer = answers[location?.run ?? -1]
        if (location === undefined || answer === undefined) return createMissingAnswer(problem)
        if (answer instanceof CountersError) return answer
        return collectOutcomes(answer, location.from, calls[index]?.batch.length ?? 0)
      })
    })
  }
}

/** Returns the outcomes of one call, or the error if one of its checks has one. */
function collectOutcomes(
  all: RunOutcomes,
  from: number,
  count: number,
): readonly LimitOutcome[] | CountersError {
  const outcomes: LimitOutcome[] = []
  for (let index = from; index < from + count; index += 1) {
    const outcome = all[index] ?? createMissingAnswer()
    if (outcome instanceof CountersError) return outcome
    outcomes.push(outcome)
  }
  return outcomes
}

/** Adds the call to the last run of its slot, or to a new one. `from` is the index of its first outcome. */
function addToRun(
  runs: OpenRun[],
  lastRuns: Map<number, number>,
  { batch }: PipelineCall<LimitCheck>,
  slot: number,
): { readonly run: number; readonly from: number } {
  const last = lastRuns.get(slot)
  const run = last === undefined ? undefined : runs[last]
  const from = run?.checks.length ?? 0
  if (run?.add(batch) && last !== undefined) return { run: last, from }
  const opened = new OpenRun()
  opened.add(batch)
  lastRuns.set(slot, runs.length)
  return { run: runs.push(opened) - 1, from: 0 }
}
