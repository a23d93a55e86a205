import { gunzip } from 'node:zlib'
import type { ObserverSlot } from '../limiter/decision-observer.ts'
import type { OpenedLimiter } from '../limiter/open-limiter.ts'
import { type CounterParts, callCounter, counterKeys } from './counter-calls.ts'
import type { ShowEntries } from './hide-values.ts'
import type { CallRecording } from './recording/call-recording.ts'
import { type ReplaySettings, replay } from './recording/replay.ts'
import {
  counterMessage,
  type Report,
  type Request,
  replayMessage,
  toAction,
  toWatch,
  watchMessage,
} from './report-codec.ts'
import { createSubscriptions, type SubscriptionOptions } from './subscriptions.ts'

/** The parts of the service that requests of the operator use. */
export interface RequestParts
  extends CounterParts,
    Pick<SubscriptionOptions, 'allowTap' | 'maxTapped' | 'worker' | 'random'> {
  readonly limiter: OpenedLimiter
  readonly slot: ObserverSlot
  /** Undefined if calls are not recorded. */
  readonly recording: CallRecording | undefined
  readonly replaySettings: ReplaySettings
  readonly show: ShowEntries
}

/** Answers the requests of one session. */
export interface RequestHandler {
  /** Never throws. */
  handle(request: Request): void
  /** Ends the subscriptions and the replays. Calls are recorded further. */
  close(): void
}

const maxTtlMs = 60_000
/** The largest configuration of a what-if. */
const maxResourceBytes = 10 * 1024 * 1024
const progressStep = 0.05
/** The most requests of counters that run at once. */
const maxCounterCalls = 100

/**
 * @param send sends a report. `isOptional` reports may be dropped if the operator does not read in time.
 */
export function createRequestHandler(
  parts: RequestParts,
  send: (report: Report, isOptional: boolean) => void,
): RequestHandler {
  const { limiter, recording, rules, clock, show, slot, allowTap, maxTapped, worker, random } = parts
  const replays = new Map<bigint, AbortController>()
  let counterCalls = 0
  const subscriptions = createSubscriptions({
    ...{ rules, clock, show, slot, allowTap, maxTapped, worker, random },
    always: recording && recorderOf(recording),
    onReport: report => send(watchMessage(report), true),
  })

  async function answerCounter(call: (Request & { case: 'counter' })['value']): Promise<void> {
    const { id, domain, entries } = call
    const action = toAction(call)
    if (action === undefined || counterCalls >= maxCounterCalls) {
      const problem = action === undefined ? 'the action is unknown' : 'too many calls run at once'
      send(counterMessage(id, { outcome: 'not-supported', problem }), false)
      return
    }
    counterCalls += 1
    try {
      send(counterMessage(id, await callCounter(parts, domain, entries, action)), false)
    } catch (error) {
      const problem = (error as Error).message
      send(counterMessage(id, { outcome: 'backend-failed', problem }), false)
    } finally {
      counterCalls -= 1
    }
  }

  async function answerWhatIf(request: (Request & { case: 'whatIf' })['value']): Promise<void> {
    const { id, domain, processes } = request
    const refuse = (problem: string, cause?: 'invalid' | 'busy') =>
      send({ case: 'replay', value: { id, done: true, problem, ...(cause && { [cause]: true }) } }, false)
    if (recording === undefined) return refuse('DECISION_RECORDING_BYTES is 0: no calls are recorded')
    if (replays.size > 0) return refuse('another replay is running', 'busy')
    const aborting = new AbortController()
    replays.set(id, aborting)
    let told = 0
    try {
      const resource = await unzip(request.resource)
      const result = await replay(
        { domain, resource, processes: Math.max(1, processes) },
        {
          ...{ settings: parts.replaySettings, rules, signal: aborting.signal },
          calls: () => recording.of(domain),
          decisions: () => recording.calls,
          onProgress(progress) {
            if (progress < told + progressStep) return
            told = progress
            send({ case: 'replay', value: { id, progress } }, true)
          },
        },
      )
      if ('problem' in result) refuse(result.problem, 'invalid')
      else send(replayMessage(id, result, show), false)
    } catch (error) {
      if (!aborting.signal.aborted) refuse((error as Error).message)
    } finally {
      replays.delete(id)
    }
  }

  return {
    handle(request) {
      if (request.case === 'subscribe') {
        const watch = toWatch(request.value)
        if (watch !== undefined) subscriptions.subscribe(watch, Math.min(request.value.ttlMs, maxTtlMs))
      } else if (request.case === 'unsubscribe') subscriptions.unsubscribe(request.value.id)
      else if (request.case === 'counter') void answerCounter(request.value)
      else if (request.case === 'forget') {
        const { id, keys, domain, entries } = request.value
        limiter.forget([...keys, ...counterKeys(parts, domain, entries)])
        send({ case: 'forgotten', value: { id } }, false)
      } else if (request.case === 'whatIf') void answerWhatIf(request.value)
      else if (request.case === 'cancelWhatIf') replays.get(request.value)?.abort()
    },
    close() {
      subscriptions.clear()
      for (const replay of replays.values()) replay.abort()
    },
  }
}

function recorderOf(recording: CallRecording) {
  return {
    decided(...[request, , , nowSeconds]: Parameters<NonNullable<ObserverSlot['observer']>['decided']>) {
      recording.record(request, nowSeconds)
    },
  }
}

function unzip(bytes: Uint8Array): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    gunzip(bytes, { maxOutputLength: maxResourceBytes }, (error, result) => {
      if (error) reject(new Error(`read the configuration: ${error.message}`))
      else resolve(result)
    })
  })
}
