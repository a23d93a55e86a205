import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ServiceName } from '../../model.ts'
import { brokerEnv } from '../../workloads/broker.ts'
import { rateLimitEnv } from '../../workloads/rate-limit.ts'
import { services } from '../../workloads/registry.ts'
import { type OperatorConfig, parseOperatorConfig, validateOperatorConfig } from './operator-config.ts'

const { value: defaultOperatorConfig } = validateOperatorConfig({}) as { readonly value: OperatorConfig }

test('absent and null fields have the default, and numbers may be texts', () => {
  const { host, replicas, grpcPort, feedPort } = defaultOperatorConfig
  assert.deepEqual([host, replicas, grpcPort, feedPort], ['127.0.0.1', 1, 8081, 18_000])
  assert.deepEqual(validateOperatorConfig({ host: null, rateLimitEnv: null }), {
    value: defaultOperatorConfig,
  })
  const judged = validateOperatorConfig({ replicas: '3', grpcPort: 9081, rateLimitEnv: { QUOTA_MODE: true } })
  assert.deepEqual(judged, {
    value: { ...defaultOperatorConfig, replicas: 3, grpcPort: 9081, rateLimitEnv: { QUOTA_MODE: 'true' } },
  })
})

/** Each row: a configuration, and its problems. */
const wrong: readonly [Readonly<Record<string, unknown>>, readonly RegExp[]][] = [
  [{ replica: 3 }, [/^replica: there is no such field; there are replicas, grpcPort, /]],
  [{ replicas: 0 }, [/^replicas: 0 is not a whole number from 1 to 64$/]],
  [
    { replicas: 65, grpcPort: '80a' },
    [/^replicas: 65/, /^grpcPort: "80a" is not a whole number from 1 to 65535/],
  ],
  [{ replicas: [1], httpPort: 1.5 }, [/^replicas: \[1\]/, /^httpPort: 1.5/]],
  [{ redisUrl: 6379, host: {} }, [/^redisUrl: is not a text/, /^host: is not a text/]],
  [{ logLevel: 'loud' }, [/^logLevel: "loud" is not one of debug, info, warn, error$/]],
  [{ httpPort: 8081 }, [/^httpPort: 8081 is the port of grpcPort already$/]],
  [{ debugPort: 8000 }, [/^debugPort: 8000 is the port of operatorPort already$/]],
  [{ grpcPort: 6102, replicas: 3 }, [/^debugPort: 6102 is the port of grpcPort already$/]],
  [
    { debugPort: 65_500, replicas: 10 },
    [/^debugPort: debug of ratelimit-6 would have the port 65536/, /7/, /8/, /9/],
  ],
  [{ metrics: 'yes' }, [/^metrics: "yes" is not true or false$/]],
  [{ metrics: true, metricsPort: 8081 }, [/^metricsPort: 8081 is the port of grpcPort already$/]],
  [
    { metrics: true, metricsPort: 6091, replicas: 3 },
    [/^debugPort: 6102 is the port of metrics of ratelimit-1 already$/],
  ],
  [
    { metrics: true, rateLimitEnv: { USE_STATSD: 'true', DISABLE_STATS: '1', USE_AGENTSTATS: 'false' } },
    [
      /^rateLimitEnv: USE_STATSD: is not allowed with metrics$/,
      /^rateLimitEnv: DISABLE_STATS: is not allowed with metrics$/,
    ],
  ],
  [{ rateLimitEnv: { USE_PROMETHEUS: true } }, [/^rateLimitEnv: USE_PROMETHEUS: .* set metrics instead$/]],
  [{ rateLimitEnv: ['A=1'] }, [/^rateLimitEnv: must be a mapping of settings and their values$/]],
  [
    { rateLimitEnv: { QUOTA_MODE: {} } },
    [/^rateLimitEnv: QUOTA_MODE: is not a text, a number, true or false$/],
  ],
  [{ rateLimitEnv: { NEAR_LIMT_RATIO: 0.5 } }, [/^rateLimitEnv: NEAR_LIMT_RATIO: there is no such setting$/]],
  [
    { rateLimitEnv: { NEAR_LIMIT_RATIO: 7 } },
    [/^rateLimitEnv: NEAR_LIMIT_RATIO: "7" is not allowed: a number/],
  ],
  [
    { rateLimitEnv: { GRPC_PORT: 1 } },
    [/^rateLimitEnv: GRPC_PORT: the operator decides it; set grpcPort instead$/],
  ],
  [{ rateLimitEnv: { REDIS_URL: 'a:1' } }, [/^rateLimitEnv: REDIS_URL: .* set redisUrl instead$/]],
  [{ rateLimitEnv: { REUSE_PORT: 'true' } }, [/^rateLimitEnv: REUSE_PORT: the operator decides it$/]],
  [{ brokerReplicas: 65 }, [/^brokerReplicas: 65 is not a whole number from 0 to 64$/]],
  [{ brokerReplicas: -1 }, [/^brokerReplicas: -1 is not a whole number from 0 to 64$/]],
  [{ brokerPort: 8081 }, [/^brokerPort: 8081 is the port of grpcPort already$/]],
  [{ brokerDebugPort: 6070 }, [/^brokerDebugPort: 6070 is the port of debug of ratelimit-0 already$/]],
  [{ brokerEnv: { MAX_PUSHES: 0 } }, [/^brokerEnv: MAX_PUSHES: "0" is not allowed: a whole number/]],
  [{ brokerEnv: { PORT: '1' } }, [/^brokerEnv: PORT: there is no such setting$/]],
  [
    { brokerEnv: { METRICS_PORT: 1 } },
    [/^brokerEnv: METRICS_PORT: the operator decides it; set brokerDebugPort instead$/],
  ],
]

test('each problem names the field, the value found and the allowed values', () => {
  for (const [written, expected] of wrong) {
    const judged = validateOperatorConfig(written)
    assert.ok('problems' in judged, JSON.stringify(written))
    assert.equal(judged.problems.length, expected.length, judged.problems.join('\n'))
    for (const [index, pattern] of expected.entries()) assert.match(judged.problems[index] ?? '', pattern)
  }
})

test('the ports of the broker are free without a broker', () => {
  assert.ok('value' in validateOperatorConfig({ brokerReplicas: 0, brokerPort: 8081, brokerDebugPort: 6070 }))
})

test('a problem names the field as the caller spells it', () => {
  const judged = validateOperatorConfig({ grpcPort: 'x' }, field =>
    field === 'grpcPort' ? '--grpc-port' : field,
  )
  assert.deepEqual(judged, { problems: ['--grpc-port: "x" is not a whole number from 1 to 65535'] })
})

test('a file that is not YAML is rejected with the line, and without its content', () => {
  const parsed = parseOperatorConfig('host: "x\nredisUrl: redis://user:secret@host\n')
  assert.deepEqual(parsed, { problem: 'line 2: deficient indentation' })
  assert.match(JSON.stringify(parseOperatorConfig('- a')), /must be a mapping of replicas, grpcPort, /)
  assert.deepEqual(parseOperatorConfig('a: 1\n---\nb: 2'), { problem: 'it must be one document, not 2' })
  assert.deepEqual(parseOperatorConfig('# nothing yet\n'), { value: {} })
  assert.deepEqual(parseOperatorConfig('replicas: 2'), { value: { replicas: 2 } })
})

test('no problem contains a secret', () => {
  const judged = validateOperatorConfig({
    rateLimitEnv: { KVSTORE_AUTH: 'secret', REDIS_AUTH: 'other secret' },
  })
  assert.ok('problems' in judged)
  assert.doesNotMatch(judged.problems.join(), /secret/)
})

test('the first process has the documented ports, and each other one its own', () => {
  const portsOf = (service: ServiceName, indexes: readonly number[], config = defaultOperatorConfig) =>
    indexes.map(index => services[service].onHost.ownPorts(config, index))
  assert.deepEqual(portsOf('ratelimit', [0, 1, 63]), [{ debug: 6070 }, { debug: 6101 }, { debug: 6163 }])
  assert.deepEqual(portsOf('broker', [0, 1, 63]), [{ debug: 6072 }, { debug: 6201 }, { debug: 6263 }])
  const withMetrics = { ...defaultOperatorConfig, metrics: true }
  assert.deepEqual(portsOf('ratelimit', [0, 1], withMetrics), [
    { debug: 6070, metrics: 9090 },
    { debug: 6101, metrics: 9101 },
  ])
  assert.deepEqual(portsOf('broker', [0], withMetrics), [{ debug: 6072 }])
})

test('the secret settings are known by all their names, and the path of a secret file is not secret', () => {
  const names = ['KVSTORE_AUTH', 'REDIS_AUTH', 'KVSTORE_AUTH_FILE', 'QUOTA_MODE']
  assert.deepEqual(names.map(rateLimitEnv.isSecret), [true, true, false, false])
})

test('the time to drain is that of the settings of a process', () => {
  assert.equal(rateLimitEnv.drainMs({ DRAIN_DELAY: '200ms', DRAIN_TIMEOUT: '3s' }), 3_200)
  assert.equal(rateLimitEnv.drainMs({}), 15_000)
  assert.equal(brokerEnv.drainMs({ DRAIN_DELAY: '1s' }), 21_000)
})
