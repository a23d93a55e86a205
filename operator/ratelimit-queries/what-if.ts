import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import type { Recording, Replay } from '@tollway/proto/tollway/operator/v1/counters'
import { askingProcesses, nextRequestId } from '../pods/ask-processes.ts'
import { QueryError } from '../pods/query-error.ts'
import { podNames, uniqueNames } from './expected-pods.ts'
import {
  type Coverage,
  type KeyOutcome,
  maxWhatIfBytes,
  type RuleOutcome,
  type WhatIfQuery,
  type WhatIfResult,
  type WhatIfStep,
} from './pod-sessions.ts'
import type { ProcessSession, ProcessSessionReport, ProcessSessionRequest } from './process-session.ts'

const askProcesses = askingProcesses<ProcessSessionReport, ProcessSessionRequest>()

export interface WhatIfTiming {
  /** The time limit of the whole replay. A process that has not answered by then is named in `missing`. */
  readonly deadlineMs: number
  /** The time limit of one request: to open a recording, or to read or add a part of it. */
  readonly partMs: number
  readonly progressMs: number
}

export const defaultWhatIfTiming: WhatIfTiming = { deadlineMs: 120_000, partMs: 10_000, progressMs: 500 }
const maxKeys = 100
/** At most this many recordings are read at the same time. */
const maxReading = 4
/** The number of calls in a part of a recording. */
const partCalls = 200
/** At most this many processes are asked in turn to replay the calls, the next one if one fails. */
const maxAttempts = 2
const compress = promisify(gzip)

/** A process that keeps its recording open for the replay. */
interface Source {
  readonly session: ProcessSession
  readonly recording: Recording
  /** How far the clock of the operator is ahead of the process, including the time of the answer. */
  readonly aheadMs: number
}

/** What all processes replay. */
interface Plan {
  /** The id that all processes use for their open recordings. */
  readonly name: bigint
  /** Calls before this time are not counted, because a process may have overwritten some of them. */
  readonly fromMs: number
  readonly epochSeconds: bigint
  /** How many times the set of replayed keys is halved, the same for all processes. */
  readonly halvings: number
  /** Each group has the processes that share counters. */
  readonly groups: readonly (readonly Source[])[]
}

/**
 * Replays the recorded calls of all processes with a proposed configuration. Of processes that share
 * counters, one replays the calls of all, in the order of their times.
 *
 * @param absent the names of the pods without a session
 */
export async function* askWhatIf(
  sessions: readonly ProcessSession[],
  absent: readonly string[],
  { domain, resource }: WhatIfQuery,
  signal: AbortSignal,
  timing: WhatIfTiming = defaultWhatIfTiming,
): AsyncGenerator<WhatIfStep> {
  if (resource.length > maxWhatIfBytes) {
    const text = `resource: ${resource.length} bytes; at most ${maxWhatIfBytes} are allowed`
    throw new QueryError('invalid', text, 'resource')
  }
  const asked = requireRecordings(sessions)
  const compressed = await compress(resource)
  const name = nextRequestId()
  const either = AbortSignal.any([signal, AbortSignal.timeout(timing.deadlineMs)])
  try {
    const sources = await openRecordings(asked, { recording: name, domain, partMs: timing.partMs })
    const plan = makePlan(name, sources)
    const pause = new WakeablePause()
    const replays = plan.groups.map(
      group =>
        new GroupReplay(
          { plan, domain, resource: compressed, timing, signal: either, wake: pause.wake },
          group,
        ),
    )
    const all = Promise.all(replays.map(replay => replay.run()))
    // The rejection is handled where `all` is awaited below.
    all.catch(() => {})
    while (!either.aborted && !replays.every(({ isDone }) => isDone)) {
      const progress = replays.reduce((sum, replay) => sum + replay.progress(), 0) / replays.length
      yield { kind: 'progress', progress }
      await pause.wait(timing.progressMs, either)
    }
    if (signal.aborted) return
    yield { kind: 'result', result: combineResults(sessions, absent, plan, await all) }
  } finally {
    for (const session of asked) session.send({ case: 'cancelWhatIf', value: name })
  }
}

/** @throws QueryError if no process can merge recordings */
function requireRecordings(sessions: readonly ProcessSession[]): readonly ProcessSession[] {
  if (sessions.length === 0)
    throw new QueryError('no-pods', 'no rate limit process reports its decisions to an operator')
  const withFeature = (name: string) => sessions.filter(({ identity }) => identity.features.includes(name))
  const found = withFeature('merge')
  if (found.length > 0) return found
  throw withFeature('replay').length > 0
    ? new QueryError('not-supported', 'the rate limit processes have an earlier version than the operator')
    : new QueryError('switched-off', 'DECISION_RECORDING_BYTES of the rate limit processes is 0')
}

/** @throws QueryError if no process opens its recording */
async function openRecordings(
  asked: readonly ProcessSession[],
  { partMs, ...what }: { readonly recording: bigint; readonly domain: string; readonly partMs: number },
): Promise<readonly Source[]> {
  const opening = asked.map(session =>
    askProcesses(
      [session],
      id => ({ case: 'openRecording', value: { id, ...what } }),
      report =>
        report.case === 'recording'
          ? { recording: report.value, aheadMs: Date.now() - Number(report.value.nowMs) }
          : undefined,
      partMs,
    ),
  )
  const answers = (await Promise.all(opening)).flatMap(({ answers }) => answers)
  const sources = answers.map(({ session, value }) => ({ session, ...value }))
  const good = sources.filter(({ recording }) => recording.problem === '')
  if (good.length > 0) return good
  const problems = sources.map(({ recording }) => recording)
  const busy = problems.find(({ busy }) => busy)
  if (busy) throw new QueryError('too-many', busy.problem)
  const [first] = problems
  throw first
    ? new QueryError('not-supported', first.problem)
    : new QueryError('deadline', 'no process answered')
}

function makePlan(name: bigint, sources: readonly Source[]): Plan {
  const startMs = ({ recording }: Source) => Number(recording.fromMs)
  const starts = sources.map(startMs)
  const overwritten = sources.filter(({ recording }) => !recording.whole).map(startMs)
  const groups = [
    ...Map.groupBy(sources, ({ session: { identity, id } }) =>
      identity.backend === 'memory' ? id : '',
    ).values(),
  ]
  return {
    name,
    groups,
    fromMs: Math.max(Math.min(...starts), ...overwritten),
    // A margin of 60 s, because recorded calls may have begun earlier, and a clock may have been set back.
    epochSeconds: BigInt(Math.max(0, Math.floor(Math.min(...starts) / 1000) - 60)),
    halvings: Math.max(...groups.map(requiredHalvings)),
  }
}

/**
 * Returns the number of halvings after which the calls of the group fit into the memory of each process of
 * the group.
 */
function requiredHalvings(group: readonly Source[]): number {
  const most = Math.min(...group.map(({ recording }) => Number(recording.maxRecords)))
  let halvings = Math.max(...group.map(({ recording }) => recording.halvings))
  while (halvings < 32 && countRecords(group, halvings) > most) halvings += 1
  return halvings
}

/** Returns about how many records remain after this number of halvings. */
const countRecords = (group: readonly Source[], halvings: number) =>
  group.reduce(
    (sum, { recording }) => sum + Number(recording.records) / 2 ** (halvings - recording.halvings),
    0,
  )

interface GroupReplayOptions {
  readonly plan: Plan
  readonly domain: string
  readonly resource: Uint8Array
  readonly timing: WhatIfTiming
  readonly signal: AbortSignal
  readonly wake: () => void
}

/**
 * The answer of the process that replayed the calls of a group, and the sources whose calls it had
 * completely.
 */
interface GroupResult {
  readonly answer: Replay | undefined
  readonly sources: readonly Source[]
}

/** The replay of the calls of processes that share counters. */
class GroupReplay {
  readonly #options: GroupReplayOptions
  /**
   * Sorted by the number of calls, the largest first: the first process replays, so that the fewest calls
   * have to be moved.
   */
  readonly #sources: readonly Source[]
  #parts = 0
  #replayed = 0
  isDone = false

  constructor(options: GroupReplayOptions, group: readonly Source[]) {
    this.#options = options
    this.#sources = group.toSorted((a, b) => Number(b.recording.records - a.recording.records))
  }

  /** Returns the progress of the replay, from 0 to 1. */
  progress(): number {
    const [, ...others] = this.#sources
    const toMove = countRecords(others, this.#options.plan.halvings) / partCalls
    const moved = others.length === 0 ? 1 : Math.min(1, this.#parts / Math.max(1, toMove))
    return (moved + this.#replayed) / 2
  }

  async run(): Promise<GroupResult> {
    let result: GroupResult = { answer: undefined, sources: [] }
    for (const at of this.#sources.slice(0, maxAttempts)) {
      result = await this.#replayAt(at, this.#sources.slice(this.#sources.indexOf(at) + 1))
      const { answer } = result
      if (this.#options.signal.aborted || answer?.problem === '' || answer?.invalid) break
    }
    this.isDone = true
    this.#options.wake()
    return result
  }

  async #replayAt(at: Source, others: readonly Source[]): Promise<GroupResult> {
    const moved: Source[] = []
    const waiting = [...others]
    this.#parts = 0
    let isLost = false
    const moveInTurn = async () => {
      for (let source = waiting.shift(); source && !isLost; source = waiting.shift()) {
        const end = await this.#move(source, at)
        if (end === 'moved') moved.push(source)
        isLost ||= end === 'lost'
      }
    }
    await Promise.all(Array.from({ length: maxReading }, moveInTurn))
    const answer = isLost ? undefined : await this.#ask(at)
    return { answer, sources: [at, ...moved] }
  }

  /**
   * Moves the calls of one process to another: `missing` if a part is not sent or not accepted, `lost` if the
   * receiving process does not answer.
   */
  async #move(from: Source, to: Source): Promise<'moved' | 'missing' | 'lost'> {
    const { plan, timing, signal, wake } = this.#options
    const { name: recording, halvings, epochSeconds } = plan
    for (let restart = true; !signal.aborted; restart = false) {
      const part = await askOne(
        from,
        id => ({ case: 'readPart', value: { id, recording, restart, halvings } }),
        report => (report.case === 'part' ? report.value : undefined),
        timing.partMs,
      )
      if (part === undefined || part.problem !== '') return 'missing'
      const { calls, last } = part
      const added = await askOne(
        to,
        id => ({ case: 'addPart', value: { id, recording, calls, halvings, epochSeconds } }),
        report => (report.case === 'added' ? report.value : undefined),
        timing.partMs,
      )
      if (added === undefined) return 'lost'
      // The receiver cannot use the part, for example because it is encrypted with another salt.
      if (added.problem !== '') return 'missing'
      this.#parts += 1
      if (last) return 'moved'
      wake()
    }
    return 'missing'
  }

  /** Resolves with the result of the replay; undefined if the process ends or is late. */
  #ask({ session }: Source): Promise<Replay | undefined> {
    const { plan, domain, resource, signal, wake } = this.#options
    const { name: recording, halvings, epochSeconds, fromMs } = plan
    const { promise, resolve } = Promise.withResolvers<Replay | undefined>()
    const giveUp = () => resolve(undefined)
    signal.addEventListener('abort', giveUp)
    if (signal.aborted) giveUp()
    const id = nextRequestId()
    const value = { id, domain, resource, recording, halvings, epochSeconds, fromMs: BigInt(fromMs) }
    const stop = session.follow(id, { case: 'whatIf', value }, report => {
      if (report === undefined) giveUp()
      else if (report.case === 'replay') {
        this.#replayed = report.value.progress
        if (report.value.done) resolve(report.value)
        wake()
      }
    })
    return promise.finally(() => {
      signal.removeEventListener('abort', giveUp)
      stop()
    })
  }
}

async function askOne<Value>(
  { session }: Source,
  request: (id: bigint) => ProcessSessionRequest,
  read: (report: ProcessSessionReport) => Value | undefined,
  deadlineMs: number,
): Promise<Value | undefined> {
  const { answers } = await askProcesses([session], request, read, deadlineMs)
  return answers[0]?.value
}

/** @throws QueryError if the configuration is invalid, and if no process has replayed it */
function combineResults(
  sessions: readonly ProcessSession[],
  absent: readonly string[],
  plan: Plan,
  results: readonly GroupResult[],
): WhatIfResult {
  const answers = results.flatMap(({ answer, sources }) =>
    answer === undefined ? [] : [{ answer, sources }],
  )
  const invalid = answers.find(({ answer }) => answer.invalid)
  if (invalid) throw new QueryError('invalid', invalid.answer.problem, 'resource')
  const good = answers.filter(({ answer }) => answer.problem === '')
  const replays = good.map(({ answer }) => answer)
  if (good.length === 0) {
    const [failed] = answers
    throw failed
      ? new QueryError('not-supported', failed.answer.problem)
      : new QueryError('deadline', 'no process has replayed the calls in time')
  }
  const sources = good.flatMap(result => result.sources)
  const used = new Set(sources.map(({ session }) => session))
  const missing = sessions.filter(session => !used.has(session))
  return {
    now: sumRules(replays.flatMap(({ now }) => now)),
    proposed: sumRules(replays.flatMap(({ proposed }) => proposed)),
    keys: sumKeys(replays),
    coverage: {
      ...measureCoverage(plan, sources, replays),
      missing: uniqueNames([...podNames(missing), ...absent]),
      pods: podNames(sessions.filter(session => used.has(session))).length,
    },
  }
}

function measureCoverage(
  { fromMs }: Plan,
  sources: readonly Source[],
  replays: readonly Replay[],
): Omit<Coverage, 'missing' | 'pods'> {
  const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
  const recordedCalls = sum(replays.map(each => Number(each.recordedCalls)))
  const earlier = sum(replays.map(({ earlierCalls, share }) => Number(earlierCalls) / share))
  const calls = sum(sources.map(({ recording }) => Number(recording.calls)))
  const ahead = sources.map(({ aheadMs }) => aheadMs)
  const first = Math.min(...replays.flatMap(({ firstMs }) => (firstMs === 0n ? [] : Number(firstMs))))
  const late = sources.filter(({ recording }) => Number(recording.fromMs) > first)
  return {
    ...(recordedCalls > 0 && { fromMs: Math.max(fromMs, first) }),
    recordedCalls,
    calls: Math.max(recordedCalls, Math.round(calls - earlier)),
    share: Math.min(...replays.map(({ share }) => share)),
    resolutionMs: Math.max(...sources.map(({ recording }) => recording.resolutionMs)),
    clocksMs: Math.max(...ahead) - Math.min(...ahead),
    started: podNames(late.map(({ session }) => session)),
  }
}

function sumRules(rules: Replay['now']): readonly RuleOutcome[] {
  const sums = new Map<string, { -readonly [Name in keyof RuleOutcome]: RuleOutcome[Name] }>()
  for (const { rule, allowed, refused, refusedAtLeast, refusedAtMost } of rules) {
    const sum = sums.get(rule) ?? { rule, allowed: 0, refused: 0, refusedAtLeast: 0, refusedAtMost: 0 }
    sums.set(rule, sum)
    sum.allowed += Number(allowed)
    sum.refused += Number(refused)
    sum.refusedAtLeast += Number(refusedAtLeast)
    sum.refusedAtMost += Number(refusedAtMost)
  }
  return [...sums.values()].sort((a, b) => (a.rule < b.rule ? -1 : 1))
}

function sumKeys(replays: readonly Replay[]): readonly KeyOutcome[] {
  const sums = new Map<string, { -readonly [Name in keyof KeyOutcome]: KeyOutcome[Name] }>()
  for (const { entries, hits, refusedNow, refusedProposed } of replays.flatMap(({ keys }) => keys)) {
    const shown = entries.map(({ key, value }) => ({ key, value }))
    const name = JSON.stringify(shown)
    const sum = sums.get(name) ?? { entries: shown, hits: 0, refusedNow: 0, refusedProposed: 0 }
    sums.set(name, sum)
    sum.hits += Number(hits)
    sum.refusedNow += Number(refusedNow)
    sum.refusedProposed += Number(refusedProposed)
  }
  const change = (key: KeyOutcome) => Math.abs(key.refusedProposed - key.refusedNow)
  return [...sums.values()].sort((a, b) => change(b) - change(a)).slice(0, maxKeys)
}
