import assert from 'node:assert/strict'
import { resolve } from 'node:path'
import { test } from 'node:test'
import type { RateLimitRule } from '@tollway/ratelimit/rules/model.ts'
import { renderWelcome } from './welcome.ts'

const rule: RateLimitRule = {
  key: 'user',
  value: '',
  shadowMode: false,
  detailedMetric: false,
  quotaMode: false,
  valueToMetric: false,
  shareThreshold: false,
  descriptors: [],
  rateLimit: { unit: 'minute', requestsPerUnit: 3, unlimited: false, name: '', replaces: [] },
}

function welcome(
  descriptors: readonly RateLimitRule[],
  stateDir = resolve('.tollway'),
  domain = 'checkout',
  more: Readonly<Record<string, string>> = {},
  brokers = 0,
) {
  const replica = { name: 'ratelimit-0', uid: 'a', ready: true, reason: '', restarts: 0 }
  return renderWelcome({
    report: {
      pid: 1,
      updatedAt: '',
      folder: '/limits',
      addresses: {
        grpc: '127.0.0.1:8081',
        http: 'http://127.0.0.1:8080',
        broker: 'b:8082',
        feed: 'f',
        operator: 'o',
      },
      resources: [],
      replicas: [
        { ...replica, addresses: { debug: 'http://127.0.0.1:6070', ...more } },
        ...Array.from({ length: brokers }, (_, index) => {
          return { ...replica, name: `broker-${index}`, addresses: { debug: `http://b:${index}` } }
        }),
      ],
      problems: [{ origin: 'a.yaml', message: 'not YAML' }],
    },
    stateDir,
    logFile: `${stateDir}/tollway.log`,
    counters: 'memory',
    inForce: [{ name: 'shop/a', domain, descriptors }],
    streams: { log: 'Redis', routes: 1 },
  })
}

test('the welcome shows the addresses, commands to try and the number of problems', () => {
  const text = welcome([rule])
  assert.match(text, /1 domain of \/limits with 1 rate limit process, counters in memory/)
  assert.match(text, /1 thing is wrong: tollway status\n/)
  assert.match(text, /try --domain checkout --entries user=alice\n/)
  assert.match(text, /npx tollway status\n/)
})

test('the addresses of metrics are shown if there are any', () => {
  const metrics = 'http://127.0.0.1:9090/metrics'
  const text = welcome([rule], undefined, undefined, { metrics })
  assert.match(text, /\n {2}metrics {11}http:\/\/127\.0\.0\.1:9090\/metrics\n/)
  assert.doesNotMatch(welcome([rule]), /metrics/)
})

test('brokers are shown if any run', () => {
  assert.doesNotMatch(welcome([rule]), /stream/)
  const text = welcome([rule], undefined, undefined, {}, 2)
  assert.match(
    text,
    /with 1 rate limit process, .*\n2 brokers of animation streams with 1 route, streams in Redis\.\n/,
  )
  assert.match(text, /\n {2}debug {13}http:\/\/127\.0\.0\.1:6070\n/)
  assert.match(text, /\n {2}animation streams b:8082 .*\n {2}their pages {7}http:\/\/b:0, http:\/\/b:1\n/)
})

test('the state folder is named if it is not the default one', () => {
  assert.match(welcome([rule], '/my state'), /npx tollway status --state-dir '\/my state'\n/)
})

test('the commands are safe to paste, whatever a manifest contains', () => {
  const text = welcome([{ ...rule, key: '$(reboot)', value: "it's, *" }], undefined, "a'b")
  assert.match(text, /-d '\{"domain":"a'\\''b",.*\{"key":"\$\(reboot\)","value":"it'\\''s, "\}/)
  assert.match(text, /--domain 'a'\\''b' --entries '\$\(reboot\)=it'\\''s\\, '\n/)
})

test('the example is for a rule that can reject', () => {
  const unlimited = {
    ...rule,
    key: 'root',
    rateLimit: { ...rule.rateLimit, unlimited: true },
  } as RateLimitRule
  const watched = { ...rule, key: 'watched', shadowMode: true }
  assert.match(welcome([unlimited, watched, rule]), /--entries user=alice/)
  assert.doesNotMatch(welcome([unlimited, watched]), /Try/)
})
