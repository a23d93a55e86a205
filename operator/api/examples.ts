import { apiVersion } from '@tollway/crds/resource-kind.ts'
import type * as manifests from './manifest-shapes.ts'
import type * as shapes from './shapes.ts'
import type * as streams from './stream-shapes.ts'

/** An example of each answer and each body, for the OpenAPI document and for tests of pages. */

const entries = [{ key: 'user', value: 'alice' }]
const hits = { calls: 617, allowed: 1200, refused: 34, near: 60, shadow: 0 }
const state = {
  rule: 'checkout.user',
  algorithm: 'FixedWindow',
  key: 'checkout_user_alice_1764000000',
  value: 10,
  limit: 10,
  remaining: 0,
  reset: 42,
}
const ready = {
  type: 'Ready',
  status: 'True',
  reason: 'Enforced',
  message: '2 of 2 processes enforce it',
  lastTransitionTime: '2026-11-23T16:00:00Z',
  observedGeneration: 3,
}

export const domainListExample: shapes.DomainList = {
  items: [
    {
      domain: 'checkout',
      owner: { namespace: 'shop', name: 'checkout' },
      rules: 2,
      pods: 2,
      ...hits,
      callsPerSecond: 10.2,
      hitsPerSecond: 20.4,
      rejectedPerSecond: 0.8,
    },
  ],
  next: 'checkout',
}

export const ruleListExample: shapes.RuleList = {
  items: [
    {
      rule: 'checkout.user',
      path: ['user'],
      limit: {
        requestsPerUnit: 5,
        window: 'minute',
        algorithm: 'FixedWindow',
        counting: 'Exact',
        burst: 5,
        unlimited: false,
        shadowMode: false,
        quotaMode: false,
      },
      ...hits,
      callsPerSecond: 10.2,
      hitsPerSecond: 20.4,
      rejectedPerSecond: 0.8,
      nearPerSecond: 1.2,
      shadowPerSecond: 0,
      pods: {
        '6f1c1f9e-0d6c-4f57-9a9e-6a3f4d0f4a10': {
          calls: 307,
          allowed: 600,
          refused: 14,
          near: 30,
          shadow: 0,
        },
        'b0f4f6a4-5a3e-4b8f-8f0f-51d1c6a0f1f2': {
          calls: 310,
          allowed: 600,
          refused: 20,
          near: 30,
          shadow: 0,
        },
      },
    },
  ],
  domain: 'checkout',
  conditions: [ready],
}

export const resetBodyExample: shapes.ResetBody = { domain: 'checkout', entries }
export const raiseBodyExample: shapes.RaiseBody = { domain: 'checkout', entries, by: 5 }

export const counterExample: shapes.CounterAnswer = {
  domain: 'checkout',
  entries,
  ...state,
  counters: [state],
  reservations: {
    count: 1,
    summed: 1,
    amount: 4,
    nextExpiryMs: 1764000042000,
    first: [
      { id: '3kx.dTfntYRyBOzYjV9Q7zNVZm.8fJc2nW0Qx6rB1tZsYdL4A', amount: 4, expiresAtMs: 1764000042000 },
    ],
  },
  missing: [],
}

const emptied = { ...state, value: 0, remaining: 10 }

export const counterChangeExample: shapes.CounterChangeAnswer = {
  domain: 'checkout',
  entries,
  ...emptied,
  counters: [emptied],
  missing: [],
  confirmed: ['tollway-ratelimit-7d4b9-x2x7k', 'tollway-ratelimit-7d4b9-p9q4z'],
}

const granted = { ...state, value: 5, remaining: 5 }

export const raisedExample: shapes.CounterChangeAnswer = {
  ...counterChangeExample,
  ...granted,
  counters: [granted],
}

export const topKeysExample: shapes.TopKeysAnswer = {
  domain: 'checkout',
  rule: 'checkout.user',
  by: 'rejected',
  keys: [{ entries, count: 34, error: 0 }],
  missingAtMost: 0,
  sinceMs: 60_000,
  hashed: false,
  missing: [],
}

export const seriesPointExample: shapes.SeriesPointEvent = {
  atMs: 1_795_453_200_000,
  calls: 11,
  allowed: 20,
  refused: 1,
  near: 2,
  shadow: 0,
  pods: 2,
}

export const historyExample: shapes.HistoryAnswer = {
  points: [
    {
      atMs: 1_795_453_200_000,
      calls: 10.2,
      allowed: 19.6,
      refused: 0.8,
      near: 1.2,
      shadow: 0,
      p50Ms: 0.4,
      p99Ms: 1.9,
    },
  ],
}

export const tapBatchExample: shapes.TapBatchEvent = {
  decisions: [
    {
      atMs: 1_795_453_200_000,
      pod: 'tollway-ratelimit-7d4b9-x2x7k',
      entries,
      rule: 'checkout.user',
      over: true,
      reason: 'over the limit of 10 per minute',
      hits: 1,
      limit: 10,
      remaining: 0,
    },
  ],
  skipped: 0,
  hashed: false,
}

export const whatIfBodyExample = {
  apiVersion,
  kind: 'RateLimitConfig',
  metadata: { namespace: 'shop', name: 'checkout' },
  spec: {
    domain: 'checkout',
    descriptors: [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit: 5 } }],
  },
}

const warnings = [
  {
    field: 'spec.descriptors[0].limits[1].name',
    message: "the limits share the name 'short', and therefore their statistics",
  },
]

export const whatIfAnswerExample: shapes.WhatIfAnswer = {
  domain: 'checkout',
  warnings,
  rules: [
    {
      rule: 'checkout.user',
      now: { allowed: 1200, refused: 34, refusedAtLeast: 34, refusedAtMost: 41 },
      proposed: { allowed: 900, refused: 334, refusedAtLeast: 334, refusedAtMost: 352 },
    },
  ],
  unlistedRules: 0,
  keys: [{ entries, hits: 44, refusedNow: 34, refusedProposed: 39 }],
  coverage: {
    fromMs: 1_795_453_000_000,
    recordedCalls: 1234,
    calls: 1234,
    share: 1,
    resolutionMs: 1,
    clocksMs: 3,
    pods: 2,
    started: [],
    missing: [],
  },
}

export const resourceListExample: shapes.ResourceList = {
  items: [
    {
      kind: 'RateLimitConfig',
      namespace: 'shop',
      name: 'checkout',
      subject: 'checkout',
      origin: 'checkout.yaml',
      observedGeneration: 3,
      counts: { rules: 2 },
      enforced: '2/2',
      rejections: [],
      unlistedRejections: 0,
      problems: [],
      conditions: [ready],
    },
  ],
  feeds: [
    {
      kind: 'RateLimitConfig',
      version: 'b1946ac92492d234',
      versions: [{ version: 'b1946ac92492d234', pods: 2 }],
    },
  ],
  pods: [
    {
      pod: 'tollway-ratelimit-7d4b9-x2x7k',
      namespace: 'tollway',
      isReporting: true,
      lastReportMsAgo: 1200,
      backend: 'redis',
      backendProblem: '',
      decisionsPerSecond: 20.4,
      p50Ms: 0.4,
      p99Ms: 2.1,
      features: ['replay'],
    },
  ],
  unlistedPods: 0,
}

export const streamListExample: streams.StreamList = {
  items: [
    {
      key: '01J2',
      streamId: 'kiosk-7',
      requestId: 'utterance-3',
      targetObjectId: 'avatar',
      sourceServiceId: 'tts',
      route: 'shop/kiosks',
      state: 'running',
      end: '',
      ageMs: 4200,
      producers: ['10.0.0.7:51234'],
      consumers: [
        { broker: 'http://127.0.0.1:6072', peer: '10.0.0.9:40022', messagesBehind: 1, bytesBehind: 4096 },
      ],
      messages: 120,
      bytes: 491_520,
    },
  ],
  missing: [],
  unlisted: 0,
}

export const streamPreviewExample: streams.StreamPreview = {
  key: '01J2',
  streamId: 'kiosk-7',
  requestId: 'utterance-3',
  targetObjectId: 'avatar',
  ended: false,
  preview: {
    seconds: { from: 0, to: 0.1 },
    messages: 3,
    audio: { samplesPerSecond: 16_000, channelCount: 1, envelope: [[-0.5, 0.4], null] },
    blendShapes: [{ name: 'jawOpen', values: [0, 0.4, 0.1] }],
    times: [0, 0.05, 0.1],
  },
}

export const merchantListExample: shapes.MerchantList = {
  items: [
    {
      namespace: 'shop',
      name: 'cafe',
      subject: 'Café Nord',
      details: { merchantId: '0190b7c2-7f2b-7cc3-98c4-dc0c0c07398f' },
      credentials: { ready: true, reason: 'Written', message: 'The Secret has the credentials' },
      conditions: [ready],
      balances: {
        available: { currency: 'DKK', amount: '49165', exponent: 2 },
        pending: [{ currency: 'EUR', amount: '1200', exponent: 2 }],
      },
    },
  ],
  booksProblem: '',
  lastVerify: {
    beganMs: 1_785_554_200_000,
    endedMs: 1_785_554_201_500,
    passed: true,
    findings: 0,
    records: { merchants: 3, transactions: 120, disputes: 1, lines: 118, entries: 119 },
    shown: [],
  },
}

export const tryBodyExample: shapes.TryBody = {
  domain: 'checkout',
  descriptors: [[{ key: 'user', value: 'alice' }]],
}

export const tryAnswerExample: shapes.TryAnswer = {
  domain: 'checkout',
  descriptors: [
    {
      entries: [{ key: 'user', value: 'alice', how: 'any value', rule: 'checkout.user' }],
      result: 'checkout.user: 10 per minute',
      hasLimit: true,
      details: ["counted under checkout_user_alice_<window's start>"],
    },
  ],
  allOrNothing: false,
}

export const applyBodyExample: manifests.ApplyBody = { resource: whatIfBodyExample, dryRun: true }

export const applyAnswerExample: manifests.ApplyAnswer = {
  namespace: 'shop',
  name: 'checkout',
  created: false,
  origin: 'checkout.yaml',
  dryRun: true,
  version: '5c3d0a1e7b9f4c2288d1a6f0e2b47c93',
  warnings,
}

export const manifestAnswerExample: manifests.ManifestAnswer = {
  kind: 'RateLimitConfig',
  namespace: 'shop',
  name: 'checkout',
  origin: 'checkout.yaml',
  version: '5c3d0a1e7b9f4c2288d1a6f0e2b47c93',
  manifest: `# each user\napiVersion: ${apiVersion}\nkind: RateLimitConfig\nmetadata:\n  name: checkout\n`,
}

export const rightListExample: shapes.RightList = {
  user: 'alice@example.com',
  namespace: 'shop',
  rights: [
    { verb: 'list', resource: 'ratelimitconfigs', allowed: true },
    { verb: 'update', resource: 'ratelimitconfigs/counters', allowed: false },
  ],
}

export const versionAnswerExample: shapes.VersionAnswer = { version: '1.2.3' }

export const errorAnswerExample: shapes.ErrorAnswer = {
  error: {
    code: 'invalid',
    message: 'by: -1 is not allowed; expected a whole number from 1 to 4294967295',
    field: 'by',
    problems: [{ field: 'by', message: '-1 is not allowed; expected a whole number from 1 to 4294967295' }],
  },
}
