import type { CounterAddress, CounterReading, CounterState } from '../../counters/pod-sessions.ts'
import { QueryError } from '../../xds/sessions/query-error.ts'
import { readEntry } from '../input/read-query.ts'
import type { Counter, CounterChange, RaiseBody, ResetBody, TopKeysAnswer } from '../shapes.ts'
import { type CounterChangeEvent, ownerOf } from '../sources.ts'
import { type ApiCall, type Handler, textOf } from './handler.ts'

const placeOf = ({ sources }: ApiCall, domain: string) => ownerOf(sources, domain) ?? {}

export const counter: Handler = {
  placeOf: call => placeOf(call, textOf(call, 'domain')),
  async answer(call): Promise<Counter> {
    const descriptor = call.parameters['descriptor'] as readonly string[]
    const entries = descriptor.map((raw, index) => readEntry(raw, `descriptor[${index}]`))
    const at = { domain: textOf(call, 'domain'), entries }
    try {
      return describeReading(at, await call.sources.pods.counter(at))
    } catch (error) {
      throw inParameters(error)
    }
  },
}

/** Names the parameter that has the entries. */
function inParameters(error: unknown): unknown {
  if (!(error instanceof QueryError) || error.field !== 'entries') return error
  return new QueryError(error.code, error.message, 'descriptor')
}

export const reset: Handler = {
  placeOf: call => placeOf(call, (call.body as ResetBody).domain),
  async answer(call): Promise<CounterChange> {
    const { domain, entries } = call.body as ResetBody
    const at = { domain, entries }
    const change = await call.sources.pods.reset(at)
    return { ...recorded(call, at, change, 'reset'), confirmed: [...change.confirmed] }
  },
}

export const raise: Handler = {
  placeOf: call => placeOf(call, (call.body as RaiseBody).domain),
  async answer(call): Promise<CounterChange> {
    const { domain, entries, by } = call.body as RaiseBody
    const at = { domain, entries }
    const change = await call.sources.pods.raise(at, by)
    return { ...recorded(call, at, change, 'raise', by), confirmed: [...change.confirmed] }
  },
}

function recorded(
  { sources, caller, changed }: ApiCall,
  at: CounterAddress,
  change: CounterReading,
  action: CounterChangeEvent['action'],
  by?: number,
): Counter {
  const answer = describeReading(at, change)
  const { domain } = at
  const owner = ownerOf(sources, domain)
  changed({ user: caller.name, action, domain, rule: answer.rule, by, owner })
  return answer
}

function describeReading({ domain, entries }: CounterAddress, reading: CounterReading): Counter {
  const counters = reading.counters.map(describeState)
  const [first, ...others] = counters
  if (first === undefined) {
    throw new QueryError('no-rule', 'no rule with a limit matches the entries', 'entries')
  }
  const tightest = others.reduce((least, one) => (one.remaining < least.remaining ? one : least), first)
  return { domain, entries: [...entries], ...tightest, counters, missing: [...reading.missing] }
}

const describeState = ({ rule, key, value, limit, remaining, resetSeconds }: CounterState) => ({
  ...{ rule, key, value, limit, remaining },
  reset: resetSeconds,
})

export const top: Handler = {
  placeOf: call => placeOf(call, textOf(call, 'domain')),
  async answer(call): Promise<TopKeysAnswer> {
    const domain = textOf(call, 'domain')
    const rule = textOf(call, 'rule')
    const by = textOf(call, 'by') as 'refused' | 'hits'
    const { keys, missingAtMost, sinceMs, missing } = await call.sources.pods.top({ domain, rule, by })
    return {
      ...{ domain, rule, by, missingAtMost, sinceMs },
      keys: keys.map(({ entries, count, error }) => ({ entries: [...entries], count, error })),
      missing: [...missing],
    }
  },
}
