import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { Replay } from '@tollway/proto/tollway/operator/v1/counters'
import { nextId } from '../xds/sessions/ask-processes.ts'
import { QueryError } from '../xds/sessions/query-error.ts'
import { uniqueNames } from './away-pods.ts'
import { podNames } from './pod-names.ts'
import {
  maxWhatIfBytes,
  type ReplayedKey,
  type ReplayedRule,
  type WhatIfQuery,
  type WhatIfResult,
  type WhatIfStep,
} from './pod-sessions.ts'
import type { ProcessSession } from './process-session.ts'

export interface WhatIfTiming {
  /** A process that has not answered by then is missing. */
  readonly deadlineMs: number
  readonly progressMs: number
}

export const defaultWhatIfTiming: WhatIfTiming = { deadlineMs: 120_000, progressMs: 500 }
const maxKeys = 100
const compress = promisify(gzip)

/**
 * Replays a configuration at all processes, and merges their answers.
 *
 * @param away the names of the pods without a session
 */
export async function* askWhatIf(
  sessions: readonly ProcessSession[],
  away: readonly string[],
  { domain, resource }: WhatIfQuery,
  signal: AbortSignal,
  { deadlineMs, progressMs }: WhatIfTiming = defaultWhatIfTiming,
): AsyncGenerator<WhatIfStep> {
  if (sessions.length === 0)
    throw new QueryError('no-pods', 'no rate limit process reports its decisions to an operator')
  const bytes = Buffer.from(resource, 'base64')
  if (bytes.length > maxWhatIfBytes) {
    const text = `resource: ${bytes.length} bytes; at most ${maxWhatIfBytes} are allowed`
    throw new QueryError('invalid', text, 'resource')
  }
  const asked = sessions.filter(({ identity }) => identity.features.includes('replay'))
  if (asked.length === 0) {
    throw new QueryError('switched-off', 'DECISION_RECORDING_BYTES of the rate limit processes is 0')
  }
  const replays = startReplays(asked, domain, await compress(bytes))
  const deadline = AbortSignal.timeout(deadlineMs)
  const either = AbortSignal.any([signal, deadline])
  try {
    while (!either.aborted && !replays.areDone()) {
      yield { kind: 'progress', progress: replays.progress() }
      await replays.pause.wait(progressMs, either)
    }
  } finally {
    replays.stop()
  }
  if (signal.aborted) return
  yield { kind: 'result', result: resultOf(sessions, away, replays.answers) }
}

function startReplays(asked: readonly ProcessSession[], domain: string, resource: Uint8Array) {
  const pause = createWakeablePause()
  const answers = new Map<ProcessSession, Replay | undefined>()
  const progress = new Map<ProcessSession, number>()
  const sharing = asked.filter(({ identity }) => identity.backend !== 'memory').length
  const id = nextId()
  const stops = asked.map(session => {
    const processes = session.identity.backend === 'memory' ? 1 : sharing
    const request = { case: 'whatIf', value: { id, domain, resource, processes } } as const
    return session.follow(id, request, report => {
      if (report === undefined) answers.set(session, undefined)
      else if (report.case === 'replay') {
        progress.set(session, report.value.progress)
        if (report.value.done) answers.set(session, report.value)
      }
      pause.wake()
    })
  })
  return {
    pause,
    answers,
    areDone: () => answers.size === asked.length,
    progress: () => progress.values().reduce((sum, part) => sum + part, 0) / asked.length,
    stop() {
      for (const stop of stops) stop()
      for (const session of asked) {
        if (!answers.has(session)) session.send({ case: 'cancelWhatIf', value: id })
      }
    },
  }
}

/** @throws QueryError if the configuration is invalid, and if no process has replayed it */
function resultOf(
  sessions: readonly ProcessSession[],
  away: readonly string[],
  answers: ReadonlyMap<ProcessSession, Replay | undefined>,
): WhatIfResult {
  const invalid = answers.values().find(answer => answer?.invalid)
  if (invalid) throw new QueryError('invalid', invalid.problem, 'resource')
  const missing = sessions.filter(session => (answers.get(session)?.problem ?? 'missing') !== '')
  const good = sessions.flatMap(session => {
    const answer = answers.get(session)
    return answer !== undefined && answer.problem === '' ? [answer] : []
  })
  if (good.length === 0) {
    const failed = [...answers.values()].flatMap(answer => answer ?? [])
    const busy = failed.find(answer => answer.busy)
    if (busy) throw new QueryError('too-many', busy.problem)
    const [first] = failed
    throw first
      ? new QueryError('not-supported', first.problem)
      : new QueryError('deadline', 'no process answered')
  }
  const starts = good.map(({ fromMs }) => Number(fromMs)).filter(fromMs => fromMs > 0)
  const total = (numbers: readonly bigint[]) => numbers.reduce((sum, number) => sum + Number(number), 0)
  return {
    now: sumRules(good.flatMap(({ now }) => now)),
    proposed: sumRules(good.flatMap(({ proposed }) => proposed)),
    keys: sumKeys(good),
    coverage: {
      ...(starts.length > 0 && { fromMs: Math.min(...starts) }),
      recordedCalls: total(good.map(({ recordedCalls }) => recordedCalls)),
      calls: total(good.map(({ calls }) => calls)),
      share: Math.min(...good.map(({ share }) => share)),
      pods: podNames(sessions.filter(session => !missing.includes(session))).length,
      missing: uniqueNames([...podNames(missing), ...away]),
    },
  }
}

function sumRules(
  rules: readonly { rule: string; allowed: bigint; refused: bigint }[],
): readonly ReplayedRule[] {
  const sums = new Map<string, { rule: string; allowed: number; refused: number }>()
  for (const { rule, allowed, refused } of rules) {
    const sum = sums.get(rule) ?? { rule, allowed: 0, refused: 0 }
    sums.set(rule, sum)
    sum.allowed += Number(allowed)
    sum.refused += Number(refused)
  }
  return [...sums.values()].sort((a, b) => (a.rule < b.rule ? -1 : 1))
}

function sumKeys(replays: readonly Replay[]): readonly ReplayedKey[] {
  const sums = new Map<string, { -readonly [Name in keyof ReplayedKey]: ReplayedKey[Name] }>()
  for (const { entries, hits, refusedNow, refusedProposed } of replays.flatMap(({ keys }) => keys)) {
    const shown = entries.map(({ key, value }) => ({ key, value }))
    const name = JSON.stringify(shown)
    const sum = sums.get(name) ?? { entries: shown, hits: 0, refusedNow: 0, refusedProposed: 0 }
    sums.set(name, sum)
    sum.hits += Number(hits)
    sum.refusedNow += Number(refusedNow)
    sum.refusedProposed += Number(refusedProposed)
  }
  const change = (key: ReplayedKey) => Math.abs(key.refusedProposed - key.refusedNow)
  return [...sums.values()].sort((a, b) => change(b) - change(a)).slice(0, maxKeys)
}
