import type { DecisionObserver, ObserverSlot } from '../limiter/decision.ts'
import type { OpenedLimiter } from '../limiter/open-limiter.ts'
import type { QuotaBuckets } from '../quota/quota-buckets.ts'
import { type CounterParts, callCounter, counterKeys } from './counter-calls.ts'
import { toBucketMessage } from './quota-reports.ts'
import type { CallRecording } from './recording/call-recording.ts'
import {
  type OperatorRequest,
  type ProcessReport,
  toAction,
  toCounterMessage,
  toWatch,
  toWatchMessage,
} from './report-codec.ts'
import { createSubscriptions, type SubscriptionOptions } from './subscriptions.ts'
import { createWhatIfHandler, type WhatIfParts } from './what-if-requests.ts'

export interface RequestParts
  extends Omit<CounterParts, 'onChange'>,
    Omit<WhatIfParts, keyof CounterParts>,
    Pick<SubscriptionOptions, 'allowTap' | 'maxTapped' | 'worker' | 'random'> {
  readonly limiter: OpenedLimiter
  readonly slot: ObserverSlot
  readonly quota: Pick<QuotaBuckets, 'read'>
}

const maxTtlMs = 60_000
/** At most this many requests for counters run at once; further ones are answered with a problem. */
const maxCounterCalls = 100

/**
 * Answers the requests of one session.
 *
 * @param send sends a report. The operator may miss an `isOptional` one if it does not read in time.
 */
export function createRequestHandler(
  parts: RequestParts,
  send: (report: ProcessReport, isOptional: boolean) => void,
) {
  const { limiter, recording } = parts
  const whatIfs = createWhatIfHandler(parts, send)
  let counterCalls = 0
  const subscriptions = createSubscriptions({
    ...parts,
    always: recording && toObserver(recording),
    onReport: report => send(toWatchMessage(report), true),
  })

  async function answerCounter(call: (OperatorRequest & { case: 'counter' })['value']): Promise<void> {
    const { id, domain, entries } = call
    const action = toAction(call)
    if (action === undefined || counterCalls >= maxCounterCalls) {
      const problem = action === undefined ? 'the action is unknown' : 'too many calls run at once'
      send(toCounterMessage(id, { outcome: 'not-supported', problem }), false)
      return
    }
    counterCalls += 1
    try {
      const onChange = (keys: readonly string[]) => limiter.revoke(keys)
      send(toCounterMessage(id, await callCounter({ ...parts, onChange }, domain, entries, action)), false)
    } catch (error) {
      const problem = (error as Error).message
      send(toCounterMessage(id, { outcome: 'backend-failed', problem }), false)
    } finally {
      counterCalls -= 1
    }
  }

  async function answerBucket(call: (OperatorRequest & { case: 'bucket' })['value']): Promise<void> {
    const { id, domain, entries } = call
    try {
      send(toBucketMessage(id, await parts.quota.read(domain, entries)), false)
    } catch (error) {
      send({ case: 'bucket', value: { id, problem: (error as Error).message } }, false)
    }
  }

  return {
    /** Never throws: a failure is answered. */
    handle(request: OperatorRequest): void {
      if (whatIfs.handle(request)) return
      if (request.case === 'subscribe') {
        const watch = toWatch(request.value)
        if (watch !== undefined) subscriptions.subscribe(watch, Math.min(request.value.ttlMs, maxTtlMs))
      } else if (request.case === 'unsubscribe') subscriptions.unsubscribe(request.value.id)
      else if (request.case === 'counter') void answerCounter(request.value)
      else if (request.case === 'bucket') void answerBucket(request.value)
      else if (request.case === 'forget') {
        const { id, keys, domain, entries } = request.value
        limiter.forget([...keys, ...counterKeys(parts, domain, entries)])
        send({ case: 'forgotten', value: { id } }, false)
      }
    },
    /** Ends the subscriptions and a replay. Calls are still recorded. */
    close(): void {
      subscriptions.clear()
      whatIfs.close()
    },
  }
}

function toObserver(recording: CallRecording): DecisionObserver {
  return { decided: (request, _matches, _statuses, ...times) => recording.record(request, ...times) }
}
