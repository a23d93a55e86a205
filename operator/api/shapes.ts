import Type, { type Static } from 'typebox'
import { maxRaise } from '../ratelimit-queries/pod-sessions.ts'
import {
  answerShape,
  countShape,
  domain,
  entries,
  entry,
  hashed,
  hits,
  missing,
  paged,
  rateShape,
  sentDomain,
  sentEntries,
  textShape,
  unixMs,
  warnings,
} from './shape-parts.ts'

/**
 * The JSON of the operator's API. The types of answers, the OpenAPI document and the checks of bodies follow
 * from these schemas.
 */

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

const comparedRule = answerShape(
  {
    rule: textShape('The rule, such as `checkout.path_api`.'),
    how: textShape('The kind of match, such as `prefix`.'),
    matches: Type.Boolean({ description: 'Whether it matches the value.' }),
    reason: textShape('Why it matches or does not.'),
  },
  'A rule that was compared with the value.',
)

export const tryAnswer = answerShape(
  {
    domain,
    descriptors: Type.Array(
      answerShape(
        {
          entries: Type.Array(
            answerShape(
              {
                key: textShape('The key.'),
                value: textShape('The value.'),
                how: textShape(
                  'The kind of match, such as `exact`, `prefix`, `wildcard` or `any value`; else `stopped` or `not reached`.',
                ),
                rule: Type.Optional(textShape('The rule that matched, such as `checkout.user_alice`.')),
                reason: Type.Optional(textShape('Why matching stopped at this entry.')),
                candidates: Type.Optional(
                  Type.Array(comparedRule, {
                    description:
                      'The rules of the key in the order of precedence, if one of them has `match`; at most 10. The first ' +
                      'that matches applies.',
                  }),
                ),
              },
              'One entry, and how it was matched.',
            ),
          ),
          result: textShape('The limit, or why there is none, in one line.'),
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

export const rightList = answerShape(
  {
    user: textShape('The name of the caller.'),
    namespace: Type.Optional(textShape('The namespace that was asked for. Missing for all namespaces.')),
    rights: Type.Array(
      answerShape(
        {
          verb: textShape('The verb, such as `get`.'),
          resource: textShape(
            'The resource of the API group tollway.dev, such as `ratelimitconfigs/counters`.',
          ),
          allowed: Type.Boolean({ description: 'Whether the caller has the right.' }),
        },
        'One right.',
      ),
    ),
  },
  'The rights of the caller, of those that calls of this API need.',
)

export const versionAnswer = answerShape({ version: textShape('The version of the operator.') }, 'What runs.')

const rates = {
  callsPerSecond: rateShape('Calls of the last 5 s, as a rate.'),
  hitsPerSecond: rateShape('Hits of the last 5 s, as a rate. A call has one hit, or its hits addend.'),
  rejectedPerSecond: rateShape('Rejected hits of the last 5 s, as a rate.'),
}

export const domainList = paged(
  answerShape(
    {
      domain,
      owner: Type.Union(
        [
          Type.Object({ namespace: textShape('The namespace.'), name: textShape('The name.') }),
          Type.Null({ description: 'No resource defines the domain any more.' }),
        ],
        { description: 'The RateLimitConfig that defines the domain.' },
      ),
      rules: countShape('The number of limits, with unlimited ones.'),
      pods: countShape('The number of pods that enforce the domain.'),
      ...hits,
      ...rates,
    },
    'One domain.',
  ),
  {},
  'Domains, sorted by name.',
)

const condition = answerShape(
  {
    type: textShape('The type, such as `Ready`.'),
    status: textShape('`True`, `False` or `Unknown`.'),
    reason: textShape('The reason, for programs.'),
    message: textShape('The reason, for people.'),
    lastTransitionTime: Type.Optional(textShape('When the status last changed.')),
    observedGeneration: Type.Optional(countShape('The generation of the resource.')),
  },
  'A condition of a resource.',
)

const limit = answerShape(
  {
    requestsPerUnit: countShape('The hits that a window admits.'),
    window: textShape('The length of the window: `minute`, `15 seconds`, `month of Europe/Copenhagen`.'),
    algorithm: textShape('`FixedWindow`, `SlidingWindow`, `TokenBucket` or `Concurrency`.'),
    counting: textShape('`Exact`, or `Leased` if pods take hits ahead of their requests.'),
    burst: countShape('The hits that are admitted at once.'),
    unlimited: Type.Boolean({ description: 'Whether every call is admitted and none is counted.' }),
    matching: Type.Optional(
      Type.String({ description: 'What the rule matches other than its value, such as prefix /api/.' }),
    ),
    shadowMode: Type.Boolean({ description: 'Whether calls over the limit are admitted.' }),
    quotaMode: Type.Boolean({ description: 'Whether the limit is one of several quotas.' }),
  },
  'A limit.',
)

export const ruleList = paged(
  answerShape(
    {
      rule: textShape('`domain.key_value.key2`, as in listings of the configuration.'),
      path: Type.Array(Type.String(), {
        description: 'The descriptors from the first level down, and the name of a limit of several.',
      }),
      limit: Type.Union([limit, Type.Null({ description: 'The resource has no such rule any more.' })]),
      ...hits,
      ...rates,
      nearPerSecond: rateShape('Allowed hits near the limit of the last 5 s, as a rate.'),
      shadowPerSecond: rateShape('Hits of the last 5 s that only the shadow mode allowed, as a rate.'),
      pods: Type.Record(Type.String(), answerShape(hits, 'The totals of one pod.'), {
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
  rule: textShape('The rule that matches the entries.'),
  algorithm: textShape('The algorithm, such as `FixedWindow`. Empty from pods of an earlier version.'),
  key: textShape('The key of the counter in the backend, including its window.'),
  value: Type.Integer({
    description:
      'The hits that are counted, with what is reserved; those that are held with `Concurrency`. Negative after a ' +
      'raise by more than them.',
  }),
  limit: countShape('The limit. With counters in the memory of several pods, the sum of their limits.'),
  remaining: countShape('The hits that are left.'),
  reset: countShape('Whole seconds until the window ends, or until a rejected hit would be admitted.'),
}

const reservations = answerShape(
  {
    count: countShape('The number of reservations that have not ended.'),
    summed: countShape(
      'The number of reservations in `amount`: those that expire first, of each pod at most 1,000.',
    ),
    amount: countShape('The sum of their amounts.'),
    nextExpiryMs: Type.Optional(unixMs('When the first of them expires. Missing if there is none.')),
    first: Type.Array(
      answerShape(
        {
          id: textShape('The id as Reserve has returned it.'),
          amount: countShape('The amount.'),
          expiresAtMs: unixMs('When the reservation expires.'),
        },
        'One reservation.',
      ),
      { description: 'Those that expire first, in this order: at most 100.' },
    ),
  },
  'What the service tollway.ratelimit.v1.Budgets has reserved in all limits of the rule together, in their current ' +
    'windows. Missing if the counters are in memcached, if a pod has an earlier version, and with `reservationsProblem`.',
)

const holder = answerShape(
  {
    name: textShape(
      'The proxy: its address, or what it sends as `tollway-member`. For a pod, the id of its process.',
    ),
    pod: textShape(
      'The pod to which the proxy reports, or whose part it is. Empty for one that is not connected.',
    ),
    wantedPerSecond: rateShape('What it had by its last report.'),
    grantedPerSecond: rateShape('What it may use.'),
    expiresInMs: countShape('Milliseconds until its share expires, unless it reports again.'),
  },
  'One share.',
)

const shares = answerShape(
  {
    limitPerSecond: rateShape('The limit.'),
    wantedPerSecond: rateShape('What all proxies had by their last reports.'),
    grantedPerSecond: rateShape('What all proxies may use.'),
    memberCount: countShape('The number of proxies.'),
    members: Type.Array(holder, { description: 'The proxies with the largest shares: at most 100.' }),
    pods: Type.Array(holder, {
      description: 'The parts of the pods, and of proxies whose pod has stopped: at most 100.',
    }),
    missing: Type.Array(Type.String(), {
      description: 'The names of the pods whose proxies are not included.',
    }),
    problem: Type.Optional(textShape('Why the parts of the pods could not be read. Missing if they could.')),
  },
  'What proxies have of the limit, in requests per second. Only for a rule with `delivery: Quota`.',
)

const reading = {
  domain,
  entries,
  ...counterFields,
  counters: Type.Array(answerShape(counterFields, 'One counter.'), {
    description:
      'One counter for each limit of the rule. The fields above are those of the counter with the least left.',
  }),
  reservations: Type.Optional(reservations),
  reservationsProblem: Type.Optional(
    textShape('Why the reservations could not be read. Missing if they could.'),
  ),
  shares: Type.Optional(shares),
  ...missing,
}

export const counter = answerShape(reading, 'The counter of one descriptor.')

export const counterChange = answerShape(
  {
    ...reading,
    confirmed: Type.Array(Type.String(), {
      description:
        'The names of the pods that have dropped the key from their caches; `missing` has the others.',
    }),
  },
  'The counter after the change.',
)

export const topKeys = answerShape(
  {
    domain,
    rule: textShape('The rule.'),
    by: textShape('`rejected` or `hits`: which hits are counted.'),
    keys: Type.Array(
      answerShape(
        {
          entries,
          count: countShape('The hits.'),
          error: countShape('The count is too high by at most this number.'),
        },
        'One key.',
      ),
      { maxItems: 100, description: 'The keys with the most hits, most first.' },
    ),
    missingAtMost: countShape('The most hits that a key can have that is not listed.'),
    sinceMs: countShape('For how many milliseconds the keys have been counted.'),
    hashed,
    ...missing,
  },
  'The keys of a rule with the most hits.',
)

export const seriesPoint = answerShape(
  { atMs: unixMs('The end of the second.'), ...hits, pods: countShape('The number of pods that reported.') },
  'The hits of one second: the data of an event `point`.',
)

export const history = answerShape(
  {
    points: Type.Array(
      answerShape(
        {
          atMs: unixMs('The end of the interval.'),
          calls: rateShape('Calls, as a rate.'),
          allowed: rateShape('Allowed hits, as a rate.'),
          refused: rateShape('Rejected hits, as a rate.'),
          near: rateShape('Allowed hits near the limit, as a rate.'),
          shadow: rateShape('Hits that only the shadow mode allowed, as a rate.'),
          p50Ms: rateShape('Half of the decisions of the slowest pod took at most this time.'),
          p99Ms: rateShape('99 % of the decisions of the slowest pod took at most this time.'),
        },
        'An interval of 5 s.',
      ),
      { maxItems: 180, description: 'The oldest first. An operator that has started begins again.' },
    ),
  },
  'The last 15 minutes.',
)

export const tapBatch = answerShape(
  {
    decisions: Type.Array(
      answerShape(
        {
          atMs: unixMs('The time of the decision.'),
          pod: textShape('The pod.'),
          entries: Type.Array(entry),
          rule: textShape('The rule; empty if no rule with a limit matched.'),
          over: Type.Boolean({ description: 'Whether the call was over the limit.' }),
          reason: textShape('The reason, in one line for people.'),
          hits: countShape('The hits of the call.'),
          limit: countShape('The hits that are admitted at once: the limit, or the burst of a token bucket.'),
          remaining: countShape('The hits that were left.'),
        },
        'One decision.',
      ),
    ),
    skipped: countShape('The decisions of this second that were not sampled.'),
    hashed,
  },
  'Sampled decisions: the data of an event `decisions`.',
)

const replayedHits = (description: string) =>
  answerShape(
    {
      allowed: hits.allowed,
      refused: hits.refused,
      refusedAtLeast: countShape('The least rejected hits; of sampled keys in most cases.'),
      refusedAtMost: countShape(
        'The most rejected hits, whatever was counted before; of sampled keys in most cases.',
      ),
    },
    description,
  )

export const whatIfAnswer = answerShape(
  {
    domain,
    warnings,
    rules: Type.Array(
      answerShape(
        {
          rule: textShape('The rule.'),
          now: replayedHits('With the active configuration.'),
          proposed: replayedHits('With the proposed configuration.'),
        },
        'The hits of one rule: those of the recorded keys, divided by `share`.',
      ),
      { maxItems: 10_000, description: 'The rules with hits, sorted by name.' },
    ),
    unlistedRules: countShape('The rules with hits beyond the first 10,000.'),
    keys: Type.Array(
      answerShape(
        {
          entries,
          hits: countShape('All recorded hits of the key.'),
          refusedNow: countShape('Rejected with the active configuration.'),
          refusedProposed: countShape('Rejected with the proposed configuration.'),
        },
        'One key.',
      ),
      { maxItems: 100, description: 'The keys whose rejected hits change most.' },
    ),
    coverage: answerShape(
      {
        fromMs: Type.Optional(unixMs('The first counted call. Missing if there is none.')),
        recordedCalls: countShape('The recorded calls of the domain since then.'),
        calls: countShape('All calls of the domain since then.'),
        share: Type.Number({
          description:
            'The recorded part of the keys, the same at all pods. A recorded key has all its calls.',
        }),
        resolutionMs: countShape('The times of calls are multiples of this: 1 or 1,000 ms.'),
        clocksMs: countShape('The most by which the clocks of two pods differ.'),
        pods: countShape('The pods whose recordings are replayed completely.'),
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
  answerShape(
    {
      kind: textShape('`RateLimitConfig`, `AnimationStreamRoute` or `Merchant`.'),
      namespace: textShape('The namespace.'),
      name: textShape('The name.'),
      subject: textShape('The domain, the prefix of the stream ids, or the name of the merchant.'),
      origin: textShape('The file on one machine; the namespace and the name in a cluster.'),
      observedGeneration: countShape('The generation that the conditions describe.'),
      counts: Type.Record(Type.String(), Type.Number(), {
        description: 'Numbers of the kind, such as `rules`.',
      }),
      enforced: textShape('The pods that enforce the resource, of those that take calls: `2/2`.'),
      rejections: Type.Array(
        answerShape(
          { pod: textShape('The pod.'), message: textShape('The text of its NACK.') },
          'A rejection by a pod.',
        ),
        { maxItems: 100, description: 'The pods that rejected the resource, at any operator.' },
      ),
      unlistedRejections: countShape('The rejections beyond the first 100.'),
      problems: Type.Array(
        answerShape({ path: textShape('The field.'), message: textShape('The problem.') }, 'A problem.'),
      ),
      conditions: Type.Array(condition),
    },
    'One resource.',
  ),
  {
    feeds: Type.Array(
      answerShape(
        {
          kind: textShape('The kind whose resources the feed carries.'),
          version: textShape('The published version; empty before the first one.'),
          versions: Type.Array(
            answerShape(
              {
                version: textShape('The version; empty for pods that enforce none.'),
                pods: countShape('The pods that enforce it.'),
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
      answerShape(
        {
          pod: textShape('The name.'),
          namespace: textShape('The namespace.'),
          isReporting: Type.Boolean({ description: 'False if the pod has not reported for 7.5 s.' }),
          lastReportMsAgo: countShape('Milliseconds since its last report.'),
          backend: textShape('`memory`, `redis` or `memcache`.'),
          backendProblem: textShape('The cause of a failure of the backend; empty if it answers.'),
          decisionsPerSecond: rateShape('Decisions of the last 5 s, as a rate.'),
          p50Ms: rateShape('Half of the decisions took at most this time.'),
          p99Ms: rateShape('99 % of the decisions took at most this time.'),
          features: Type.Array(Type.String(), { description: '`tap`, `replay`, `hashed-keys`.' }),
        },
        'A pod of the rate limit service.',
      ),
      {
        maxItems: 1_000,
        description: 'The pods of the rate limit service. The first page has them; later ones have none.',
      },
    ),
    unlistedPods: countShape('The pods beyond the first 1,000.'),
  },
  'Resources, sorted by kind, namespace and name.',
)

const money = answerShape(
  {
    currency: textShape('The code of ISO 4217, such as `DKK`.'),
    amount: textShape('Minor units in decimal digits, such as `49165` or `-5`: a sum may exceed 2^53.'),
    exponent: countShape('The digits of the minor unit: with 2, `49165` are 491.65.'),
  },
  'A sum of money.',
)

const balances = answerShape(
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

const lastVerify = answerShape(
  {
    beganMs: unixMs('The begin.'),
    endedMs: unixMs('The end.'),
    passed: Type.Boolean({ description: 'Whether the books are right: without findings.' }),
    findings: countShape('The number of inconsistencies.'),
    records: Type.Record(Type.String(), Type.Integer(), {
      description: 'The number of replayed records, such as `transactions`.',
    }),
    shown: Type.Array(
      answerShape(
        {
          merchant: textShape('`namespace/name` of the Merchant; empty if there is none.'),
          record: textShape('The record, such as `transaction 0190…`.'),
          message: textShape('The inconsistency.'),
        },
        'An inconsistency.',
      ),
      { description: 'The first inconsistencies; with `namespace`, only those of its Merchants.' },
    ),
  },
  'The result of the last `tollway payments verify`.',
)

export const merchantList = paged(
  answerShape(
    {
      namespace: textShape('The namespace.'),
      name: textShape('The name.'),
      subject: textShape('The name that people see.'),
      details: Type.Record(Type.String(), Type.String(), { description: 'Ids and links. No secret.' }),
      credentials: answerShape(
        {
          ready: Type.Boolean({ description: 'Whether the Secret has the API key and the ids.' }),
          reason: textShape('The reason, for programs.'),
          message: textShape('The reason, for people.'),
        },
        'The state of the credentials.',
      ),
      conditions: Type.Array(condition),
      balances: Type.Optional(balances),
    },
    'One merchant.',
  ),
  {
    booksProblem: textShape('Why balances are not known; empty if the payments service has answered.'),
    lastVerify: Type.Union([lastVerify, Type.Null()], {
      description: 'The last proof of the books. Null if none has ended, or the service did not answer.',
    }),
  },
  'Merchants, sorted by namespace and name.',
)

export const errorAnswer = answerShape(
  {
    error: answerShape(
      {
        code: textShape('For programs: `invalid`, `unknown-domain`, `forbidden`.'),
        message: textShape('For people: the field, what was found, and what is allowed.'),
        field: Type.Optional(textShape('The parameter or field at fault, such as `entries[0].key`.')),
        problems: Type.Optional(
          Type.Array(
            answerShape(
              { field: textShape('The parameter or field.'), message: textShape('The problem.') },
              'A problem.',
            ),
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
export type CounterAnswer = Static<typeof counter>
export type CounterChangeAnswer = Static<typeof counterChange>
export type TopKeysAnswer = Static<typeof topKeys>
export type SeriesPointEvent = Static<typeof seriesPoint>
export type HistoryAnswer = Static<typeof history>
export type TapBatchEvent = Static<typeof tapBatch>
export type WhatIfAnswer = Static<typeof whatIfAnswer>
export type ResourceList = Static<typeof resourceList>
export type MerchantList = Static<typeof merchantList>
export type ErrorAnswer = Static<typeof errorAnswer>
