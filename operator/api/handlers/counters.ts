import { mayHaveChanged, QueryError } from '../../pods/query-error.ts'
import type {
  CounterAddress,
  CounterReading,
  CounterState,
  CounterChange as PodsChange,
} from '../../ratelimit-queries/pod-sessions.ts'
import { invalidInput } from '../errors.ts'
import { readEntry } from '../input.ts'
import type { CounterAnswer, CounterChangeAnswer, RaiseBody, ResetBody, TopKeysAnswer } from '../shapes.ts'
import { type CounterChangeEvent, findDomainOwner, resolveDomainScope } from '../sources.ts'
import { checkRule } from './domains.ts'
import { type ApiCall, type Handler, requiredText } from './handler.ts'

export const counterHandler: Handler = {
  resolveScope: call => resolveDomainScope(call.sources, requiredText(call, 'domain')),
  async answer(call): Promise<CounterAnswer> {
    const descriptor = call.parameters['descriptor'] as readonly string[]
    const entries = descriptor.map((raw, index) => readEntry(raw, `descriptor[${index}]`))
    const at = { domain: requiredText(call, 'domain'), entries }
    try {
      return describeReading(at, await call.sources.pods.counter(at))
    } catch (error) {
      throw inParameters(error)
    }
  },
}

/**
 * Returns an error about `entries` as one about the parameter `descriptor`, by which the caller has sent
 * them.
 */
function inParameters(error: unknown): unknown {
  if (!(error instanceof QueryError) || error.field !== 'entries') return error
  return new QueryError(error.code, error.message, 'descriptor')
}

export const reset: Handler = {
  resolveScope: call => resolveDomainScope(call.sources, (call.body as ResetBody).domain),
  async answer(call): Promise<CounterChangeAnswer> {
    const { domain, entries, by } = call.body as ResetBody
    // The schema cannot require null, because validation treats null as a field that is left out.
    if (by !== undefined) throw invalidInput([{ path: 'by', message: noNumber(by) }])
    const at = { domain, entries }
    return await recordChange(call, at, { action: 'reset' }, () => call.sources.pods.reset(at))
  },
}

const noNumber = (by: unknown) =>
  `${JSON.stringify(by).slice(0, 100)} is not allowed; a reset sets the counter to 0, ` +
  'and POST /counters/raise grants hits'

export const raise: Handler = {
  resolveScope: call => resolveDomainScope(call.sources, (call.body as RaiseBody).domain),
  async answer(call): Promise<CounterChangeAnswer> {
    const { domain, entries, by } = call.body as RaiseBody
    const at = { domain, entries }
    return await recordChange(call, at, { action: 'raise', by }, () => call.sources.pods.raise(at, by))
  },
}

/** Makes a change, and reports it to `changed`, even if it is unknown whether it was made. */
async function recordChange(
  { sources, caller, changed }: ApiCall,
  at: CounterAddress,
  change: Pick<CounterChangeEvent, 'action' | 'by'>,
  make: () => Promise<PodsChange>,
): Promise<CounterChangeAnswer> {
  const { domain } = at
  const about = { ...change, user: caller.name, domain, owner: findDomainOwner(sources, domain) }
  const made = await make().catch(error => {
    if (!mayHaveChanged(error)) throw error
    const problem = error instanceof QueryError ? error.message : 'internal error'
    changed({ ...about, rule: '', unknown: problem })
    if (!(error instanceof QueryError)) throw error
    throw new QueryError(error.code, `${problem}; the counter may have changed`, error.field)
  })
  const answer = describeReading(at, made)
  changed({ ...about, rule: answer.rule })
  return { ...answer, confirmed: [...made.confirmed] }
}

function describeReading({ domain, entries }: CounterAddress, reading: CounterReading): CounterAnswer {
  const counters = reading.counters.map(describeState)
  const [first, ...others] = counters
  if (first === undefined) {
    throw new QueryError('no-rule', 'no rule with a limit matches the entries', 'entries')
  }
  const tightest = others.reduce((least, one) => (one.remaining < least.remaining ? one : least), first)
  const { missing, reservations, reservationsProblem, shares } = reading
  return {
    domain,
    entries: [...entries],
    ...tightest,
    counters,
    ...(reservations && { reservations: { ...reservations, first: [...reservations.first] } }),
    ...(reservationsProblem !== undefined && { reservationsProblem }),
    ...(shares && {
      shares: {
        ...shares,
        members: [...shares.members],
        pods: [...shares.pods],
        missing: [...shares.missing],
      },
    }),
    missing: [...missing],
  }
}

const describeState = ({ resetSeconds, ...same }: CounterState) => ({ ...same, reset: resetSeconds })

export const top: Handler = {
  resolveScope: call => resolveDomainScope(call.sources, requiredText(call, 'domain')),
  async answer(call): Promise<TopKeysAnswer> {
    const domain = requiredText(call, 'domain')
    const rule = requiredText(call, 'rule')
    const by = requiredText(call, 'by') === 'hits' ? 'hits' : 'rejected'
    await checkRule(call)
    const found = await call.sources.pods.top({ domain, rule, by })
    const { keys, missingAtMost, sinceMs, missing, hashed = false } = found
    return {
      domain,
      rule,
      by,
      missingAtMost,
      sinceMs,
      hashed,
      keys: keys.map(({ entries, count, error }) => ({ entries: [...entries], count, error })),
      missing: [...missing],
    }
  },
}
