import Type, { type Static } from 'typebox'
import {
  answer,
  count,
  domain,
  entries,
  entry,
  hashed,
  hits,
  missing,
  paged,
  rate,
  sentDomain,
  sentEntries,
  text,
  unixMs,
  warnings,
} from './shape-parts.ts'

/**
 * The JSON of the operator's API. The types of answers, the OpenAPI document and the checks of bodies follow
 * from these schemas.
 */

/** The largest grant of a raise: a limit has 32 bits. */
export const maxRaise = 0xffffffff

const sentCounter = { domain: sentDomain, entries: sentEntries }

export const resetBody = Type.Object(
  {
    ...sentCounter,
    by: Type.Optional(Type.Null({ description: 'A reset has no number, so this is null or missing.' })),
  },
  { description: 'The counter of one descriptor.' },
)

export const raiseBody = Type.Object(
  {
    ...sentCounter,
    by: Type.Integer({
      minimum: 1,
      maximum: maxRaise,
      description: 'The number of hits that are granted until the window ends.',
    }),
  },
  { description: 'The counter of one descriptor, and a number of hits.' },
)

/** The most descriptors of one request that are explained. */
const maxTryDescriptors = 64

export const tryBody = Type.Object(
  {
    domain: sentDomain,
    descriptors: Type.Array(sentEntries, {
      minItems: 1,
      maxItems: maxTryDescriptors,
      description: 'The descriptors of one request, each a list of entries in order.',
    }),
  },
  { description: 'A request as Envoy sends it.' },
)

export const tryAnswer = answer(
  {
    domain,
    descriptors: Type.Array(
      answer(
        {
          entries: Type.Array(
            answer(
              {
                key: text('The key.'),
                value: text('The value.'),
                how: text('`exact`, `wildcard`, `any value`, `stopped` or `not reached`.'),
                rule: Type.Optional(text('The rule that matched, such as `checkout.user_alice`.')),
                reason: Type.Optional(text('Why matching stopped at this entry.')),
              },
              'One entry, and how it was matched.',
            ),
          ),
          result: text('The limit, or why there is none, in one line.'),
          hasLimit: Type.Boolean({ description: 'Whether a limit counts the descriptor.' }),
          details: Type.Array(Type.String(), {
            description: 'Properties of the limit, such as its window, for people.',
          }),
        },
        'One descriptor.',
      ),
    ),
    allOrNothing: Type.Boolean({
      description: 'Whether every limit counts the request if all of them admit it.',
    }),
  },
  'The rules that a request matches. No counter changes.',
)

export const rightList = answer(
  {
    user: text('The name of the caller.'),
    namespace: Type.Optional(text('The namespace that was asked for. Missing for all namespaces.')),
    rights: Type.Array(
      answer(
        {
          verb: text('The verb, such as `get`.'),
          resource: text('The resource of the API group tollway.dev, such as `ratelimitconfigs/counters`.'),
          allowed: Type.Boolean({ description: 'Whether the caller has the right.' }),
        },
        'One right.',
      ),
    ),
  },
  'The rights of the caller, of those that calls of this API need.',
)

export const versionAnswer = answer({ version: text('The version of the operator.') }, 'What runs.')

const rates = {
  callsPerSecond: rate('Calls of the last 5 s, as a rate.'),
  hitsPerSecond: rate('Hits of the last 5 s, as a rate. A call has one hit, or its hits addend.'),
  rejectedPerSecond: rate('Rejected hits of the last 5 s, as a rate.'),
}

export const domainList = paged(
  answer(
    {
      domain,
      owner: Type.Union(
        [
          Type.Object({ namespace: text('The namespace.'), name: text('The name.') }),
          Type.Null({ description: 'No resource defines the domain any more.' }),
        ],
        { description: 'The RateLimitConfig that defines the domain.' },
      ),
      rules: count('The number of limits, with unlimited ones.'),
      pods: count('The number of pods that enforce the domain.'),
      ...hits,
      ...rates,
    },
    'One domain.',
  ),
  {},
  'Domains, sorted by name.',
)

const condition = answer(
  {
    type: text('The type, such as `Ready`.'),
    status: text('`True`, `False` or `Unknown`.'),
    reason: text('The reason, for programs.'),
    message: text('The reason, for people.'),
    lastTransitionTime: Type.Optional(text('When the status last changed.')),
    observedGeneration: Type.Optional(count('The generation of the resource.')),
  },
  'A condition of a resource.',
)

const limit = answer(
  {
    requestsPerUnit: count('The hits that a window admits.'),
    window: text('The length of the window: `minute`, `15 seconds`, `month of Europe/Copenhagen`.'),
    algorithm: text('`FixedWindow`, `SlidingWindow` or `TokenBucket`.'),
    burst: count('The hits that are admitted at once.'),
    unlimited: Type.Boolean({ description: 'Whether every call is admitted and none is counted.' }),
    shadowMode: Type.Boolean({ description: 'Whether calls over the limit are admitted.' }),
    quotaMode: Type.Boolean({ description: 'Whether the limit is one of several quotas.' }),
  },
  'A limit.',
)

export const ruleList = paged(
  answer(
    {
      rule: text('`domain.key_value.key2`, as in listings of the configuration.'),
      path: Type.Array(Type.String(), {
        description: 'The descriptors from the first level down, and the name of a limit of several.',
      }),
      limit: Type.Union([limit, Type.Null({ description: 'The resource has no such rule any more.' })]),
      ...hits,
      ...rates,
      nearPerSecond: rate('Allowed hits near the limit of the last 5 s, as a rate.'),
      shadowPerSecond: rate('Hits of the last 5 s that only the shadow mode allowed, as a rate.'),
      pods: Type.Record(Type.String(), answer(hits, 'The totals of one pod.'), {
        description: 'The totals of each pod, by its uid. Empty with the parameter `totals=sum`.',
      }),
    },
    'One rule with its totals since the start of the pods.',
  ),
  {
    domain,
    conditions: Type.Array(condition, { description: 'The conditions of the resource with the rules.' }),
  },
  'Limits of the domain, sorted by name. Unlimited ones count no hits.',
)

const counterFields = {
  rule: text('The rule that matches the entries.'),
  key: text('The key of the counter in the backend, including its window.'),
  value: Type.Integer({
    description: 'The hits that are counted. Negative after a raise by more than them.',
  }),
  limit: count('The limit. With counters in the memory of several pods, the sum of their limits.'),
  remaining: count('The hits that are left.'),
  reset: count('Whole seconds until the window ends.'),
}

const reading = {
  domain,
  entries,
  ...counterFields,
  counters: Type.Array(answer(counterFields, 'One counter.'), {
    description:
      'One counter for each limit of the rule. The fields above are those of the counter with the least left.',
  }),
  ...missing,
}

export const counter = answer(reading, 'The counter of one descriptor.')

export const counterChange = answer(
  {
    ...reading,
    confirmed: Type.Array(Type.String(), {
      description:
        'The names of the pods that have dropped the key from their caches; `missing` has the others.',
    }),
  },
  'The counter after the change.',
)

export const topKeys = answer(
  {
    domain,
    rule: text('The rule.'),
    by: text('`refused` or `hits`: which hits are counted.'),
    keys: Type.Array(
      answer(
        { entries, count: count('The hits.'), error: count('The count is too high by at most this number.') },
        'One key.',
      ),
      { maxItems: 100, description: 'The keys with the most hits, most first.' },
    ),
    missingAtMost: count('The most hits that a key can have that is not listed.'),
    sinceMs: count('For how many milliseconds the keys have been counted.'),
    hashed,
    ...missing,
  },
  'The keys of a rule with the most hits.',
)

export const seriesPoint = answer(
  { atMs: unixMs('The end of the second.'), ...hits, pods: count('The number of pods that reported.') },
  'The hits of one second: the data of an event `point`.',
)

export const history = answer(
  {
    points: Type.Array(
      answer(
        {
          atMs: unixMs('The end of the interval.'),
          calls: rate('Calls, as a rate.'),
          allowed: rate('Allowed hits, as a rate.'),
          refused: rate('Rejected hits, as a rate.'),
          near: rate('Allowed hits near the limit, as a rate.'),
          shadow: rate('Hits that only the shadow mode allowed, as a rate.'),
          p50Ms: rate('Half of the decisions of the slowest pod took at most this time.'),
          p99Ms: rate('99 % of the decisions of the slowest pod took at most this time.'),
        },
        'An interval of 5 s.',
      ),
      { maxItems: 180, description: 'The oldest first. An operator that has started begins again.' },
    ),
  },
  'The last 15 minutes.',
)

export const tapBatch = answer(
  {
    decisions: Type.Array(
      answer(
        {
          atMs: unixMs('The time of the decision.'),
          pod: text('The pod.'),
          entries: Type.Array(entry),
          rule: text('The rule; empty if no rule with a limit matched.'),
          over: Type.Boolean({ description: 'Whether the call was over the limit.' }),
          reason: text('The reason, in one line for people.'),
          hits: count('The hits of the call.'),
          limit: count('The hits that are admitted at once: the limit, or the burst of a token bucket.'),
          remaining: count('The hits that were left.'),
        },
        'One decision.',
      ),
    ),
    skipped: count('The decisions of this second that were not sampled.'),
    hashed,
  },
  'Sampled decisions: the data of an event `decisions`.',
)

const replayedHits = (description: string) =>
  answer(
    {
      allowed: hits.allowed,
      refused: hits.refused,
      refusedAtLeast: count('The least rejected hits; of sampled keys in most cases.'),
      refusedAtMost: count(
        'The most rejected hits, whatever was counted before; of sampled keys in most cases.',
      ),
    },
    description,
  )

export const whatIfAnswer = answer(
  {
    domain,
    warnings,
    rules: Type.Array(
      answer(
        {
          rule: text('The rule.'),
          now: replayedHits('With the active configuration.'),
          proposed: replayedHits('With the proposed configuration.'),
        },
        'The hits of one rule: those of the recorded keys, divided by `share`.',
      ),
      { maxItems: 10_000, description: 'The rules with hits, sorted by name.' },
    ),
    unlistedRules: count('The rules with hits beyond the first 10,000.'),
    keys: Type.Array(
      answer(
        {
          entries,
          hits: count('All recorded hits of the key.'),
          refusedNow: count('Refused with the active configuration.'),
          refusedProposed: count('Refused with the proposed configuration.'),
        },
        'One key.',
      ),
      { maxItems: 100, description: 'The keys whose refused hits change most.' },
    ),
    coverage: answer(
      {
        fromMs: Type.Optional(unixMs('The first counted call. Missing if there is none.')),
        recordedCalls: count('The recorded calls of the domain since then.'),
        calls: count('All calls of the domain since then.'),
        share: Type.Number({
          description:
            'The recorded part of the keys, the same at all pods. A recorded key has all its calls.',
        }),
        resolutionMs: count('The times of calls are multiples of this: 1 or 1,000 ms.'),
        clocksMs: count('The most by which the clocks of two pods differ.'),
        pods: count('The pods whose recordings are replayed completely.'),
        started: Type.Array(Type.String(), {
          description:
            'Those of them that started after `fromMs`: calls of pods that they replaced are missing.',
        }),
        missing: Type.Array(Type.String(), {
          description: 'The pods that did not answer, have no recording, or have an earlier version.',
        }),
      },
      'The part of the traffic that the answer is based on.',
    ),
  },
  'What the recorded calls would have met.',
)

export const resourceList = paged(
  answer(
    {
      kind: text('`RateLimitConfig`, `AnimationStreamRoute` or `Merchant`.'),
      namespace: text('The namespace.'),
      name: text('The name.'),
      subject: text('The domain, the prefix of the stream ids, or the name of the merchant.'),
      origin: text('The file on one machine; the namespace and the name in a cluster.'),
      observedGeneration: count('The generation that the conditions describe.'),
      counts: Type.Record(Type.String(), Type.Number(), {
        description: 'Numbers of the kind, such as `rules`.',
      }),
      enforced: text('The pods that enforce the resource, of those that take calls: `2/2`.'),
      rejections: Type.Array(
        answer({ pod: text('The pod.'), message: text('The text of its NACK.') }, 'A rejection by a pod.'),
        { maxItems: 100, description: 'The pods that rejected the resource, at any operator.' },
      ),
      unlistedRejections: count('The rejections beyond the first 100.'),
      problems: Type.Array(answer({ path: text('The field.'), message: text('The problem.') }, 'A problem.')),
      conditions: Type.Array(condition),
    },
    'One resource.',
  ),
  {
    feeds: Type.Array(
      answer(
        {
          kind: text('The kind whose resources the feed carries.'),
          version: text('The published version; empty before the first one.'),
          versions: Type.Array(
            answer(
              {
                version: text('The version; empty for pods that enforce none.'),
                pods: count('The pods that enforce it.'),
              },
              'A version.',
            ),
          ),
        },
        'One type of the feed.',
      ),
      { description: 'The pods of all operators by the version of the feed that they enforce.' },
    ),
    pods: Type.Array(
      answer(
        {
          pod: text('The name.'),
          namespace: text('The namespace.'),
          isReporting: Type.Boolean({ description: 'False if the pod has not reported for 7.5 s.' }),
          lastReportMsAgo: count('Milliseconds since its last report.'),
          backend: text('`memory`, `redis` or `memcache`.'),
          backendProblem: text('The cause of a failure of the backend; empty if it answers.'),
          decisionsPerSecond: rate('Decisions of the last 5 s, as a rate.'),
          p50Ms: rate('Half of the decisions took at most this time.'),
          p99Ms: rate('99 % of the decisions took at most this time.'),
          features: Type.Array(Type.String(), { description: '`tap`, `replay`, `hashed-keys`.' }),
        },
        'A pod of the rate limit service.',
      ),
      {
        maxItems: 1_000,
        description: 'The pods of the rate limit service. The first page has them; later ones have none.',
      },
    ),
    unlistedPods: count('The pods beyond the first 1,000.'),
  },
  'Resources, sorted by kind, namespace and name.',
)

const money = answer(
  {
    currency: text('The code of ISO 4217, such as `DKK`.'),
    amount: text('Minor units in decimal digits, such as `49165` or `-5`: a sum may exceed 2^53.'),
    exponent: count('The digits of the minor unit: with 2, `49165` are 491.65.'),
  },
  'A sum of money.',
)

const balances = answer(
  {
    available: {
      ...money,
      description: 'The funds of the next payout. Negative if the merchant owes money.',
    },
    pending: Type.Array(money, {
      description: 'Authorised and neither captured nor voided, by currency of the payments.',
    }),
  },
  'The balances. Missing if the payments service has no merchant of the resource, or did not answer.',
)

const lastVerify = answer(
  {
    beganMs: unixMs('The begin.'),
    endedMs: unixMs('The end.'),
    passed: Type.Boolean({ description: 'Whether the books are right: without findings.' }),
    findings: count('The number of inconsistencies.'),
    records: Type.Record(Type.String(), Type.Integer(), {
      description: 'The number of replayed records, such as `transactions`.',
    }),
    shown: Type.Array(
      answer(
        {
          merchant: text('`namespace/name` of the Merchant; empty if there is none.'),
          record: text('The record, such as `transaction 0190…`.'),
          message: text('The inconsistency.'),
        },
        'An inconsistency.',
      ),
      { description: 'The first inconsistencies; with `namespace`, only those of its Merchants.' },
    ),
  },
  'The result of the last `tollway payments verify`.',
)

export const merchantList = paged(
  answer(
    {
      namespace: text('The namespace.'),
      name: text('The name.'),
      subject: text('The name that people see.'),
      details: Type.Record(Type.String(), Type.String(), { description: 'Ids and links. No secret.' }),
      credentials: answer(
        {
          ready: Type.Boolean({ description: 'Whether the Secret has the API key and the ids.' }),
          reason: text('The reason, for programs.'),
          message: text('The reason, for people.'),
        },
        'The state of the credentials.',
      ),
      conditions: Type.Array(condition),
      balances: Type.Optional(balances),
    },
    'One merchant.',
  ),
  {
    booksProblem: text('Why balances are not known; empty if the payments service has answered.'),
    lastVerify: Type.Union([lastVerify, Type.Null()], {
      description: 'The last proof of the books. Null if none has ended, or the service did not answer.',
    }),
  },
  'Merchants, sorted by namespace and name.',
)

export const errorAnswer = answer(
  {
    error: answer(
      {
        code: text('For programs: `invalid`, `unknown-domain`, `forbidden`.'),
        message: text('For people: the field, what was found, and what is allowed.'),
        field: Type.Optional(text('The parameter or field at fault, such as `entries[0].key`.')),
        problems: Type.Optional(
          Type.Array(
            answer({ field: text('The parameter or field.'), message: text('The problem.') }, 'A problem.'),
            { description: 'All problems of the input, at most 100.' },
          ),
        ),
      },
      'The error.',
    ),
  },
  'An error.',
)

export type TryBody = Static<typeof tryBody>
export type TryAnswer = Static<typeof tryAnswer>
export type RightList = Static<typeof rightList>
export type VersionAnswer = Static<typeof versionAnswer>
export type DomainList = Static<typeof domainList>
export type RuleList = Static<typeof ruleList>
export type ResetBody = Static<typeof resetBody>
export type RaiseBody = Static<typeof raiseBody>
export type Counter = Static<typeof counter>
export type CounterChange = Static<typeof counterChange>
export type TopKeysAnswer = Static<typeof topKeys>
export type SeriesPointEvent = Static<typeof seriesPoint>
export type HistoryAnswer = Static<typeof history>
export type TapBatchEvent = Static<typeof tapBatch>
export type WhatIfAnswer = Static<typeof whatIfAnswer>
export type ResourceList = Static<typeof resourceList>
export type MerchantList = Static<typeof merchantList>
export type ErrorAnswer = Static<typeof errorAnswer>
